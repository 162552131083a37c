"""Operators of a device, each on the reference's activations: two compilations show all faults.

A model is cut at every tensor, so that each operator reads what the reference device computed and
no error reaches the next one. Devices fuse less then than in the whole model: what is found is a
suspicion, which placements confirm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.measured.outputs import is_string, relative_error
from placement_gym.backends.pipeline.cutting import MODEL, Cutter, StageModel
from placement_gym.backends.pipeline.stage import compile_on
from placement_gym.base.arrays import BoolArray, FloatArray
from placement_gym.graph.parts import separate_parts
from placement_gym.models.random_operators import find_random
from placement_gym.models.tensors import Input, as_input, read_values

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.backends.measured.candidate import Engine

Array = NDArray[Any]
Port = tuple[str, int]
"""Name and output index of a node."""


def measure_operator_errors(engine: Engine, device: int, chosen: BoolArray) -> FloatArray:
    """(n_operators,) relative error of each operator's outputs, given the reference's inputs.

    Args:
        engine: A model without state, its inputs and the devices.
        device: Index of the device.
        chosen: (n_operators,) which operators to run there; others, and those that draw random
            numbers, have NaN.

    Raises:
        CompileError: A device refused.
    """
    import openvino as ov

    problem, graph = engine.problem, engine.problem.units.graph
    chosen = chosen & ~np.isin(graph.names, list(find_random(engine.model)))
    reference, tested = problem.devices[problem.reference_device], problem.devices[device]
    cut = engine.model.clone()
    owner = separate_parts(cut, graph, np.arange(len(graph)))
    stages, _ = Cutter(cut, owner).cut()
    parts = [(operator, stages[operator]) for operator in np.flatnonzero(chosen).tolist()]
    inputs = engine.steps[0]
    engine.reporter.beat("compiling with all activations as outputs")
    tapped = tap(engine.model, stages)
    whole = compile_on(engine.core, tapped, reference, "the model with all activations as outputs")
    expected = infer_ports(whole, inputs)
    # One model of all operators: an operator reads Parameters alone, and ends in Results alone.
    pieces = ov.Model(
        [result for _, part in parts for result in part.results],
        [one for _, part in parts for one in part.inputs.values()],
        "operators",
    )
    engine.reporter.beat("compiling operators apart")
    compiled = compile_on(engine.core, pieces, tested, "operators apart")
    given: list[Input] = [
        inputs[source[1]] if source[0] == MODEL else expected[port]
        for _, part in parts
        for source, port in zip(part.sources, part.inputs, strict=True)
    ]
    engine.reporter.beat("an inference")
    found = iter(infer(compiled, given))
    errors = np.full(len(graph), np.nan)
    for operator, part in parts:
        pairs = [(next(found), expected[port]) for port in list_ports(part)]
        errors[operator] = max((error_where_finite(*pair) for pair in pairs), default=0.0)
    return errors


def list_ports(part: StageModel) -> list[Port]:
    """Name and output of what each result of a part returns."""
    sources = [result.input(0).get_source_output() for result in part.results]
    return [(one.get_node().get_friendly_name(), one.get_index()) for one in sources]


def tap(model: ov.Model, stages: Sequence[StageModel]) -> ov.Model:
    """A copy of a model that returns what each part of it does, named by the ports."""
    import openvino as ov
    from openvino import op

    tapped = model.clone()
    nodes = {node.get_friendly_name(): node for node in tapped.get_ops()}
    ports = dict.fromkeys(port for part in stages for port in list_ports(part))
    results = []
    for name, index in ports:
        results.append(op.Result(nodes[name].output(index)))
        results[-1].set_friendly_name(f"{name}:{index}")
    return ov.Model(results, tapped.get_sinks(), tapped.get_parameters(), "activations")


def infer_ports(compiled: ov.CompiledModel, inputs: Sequence[Input]) -> dict[Port, Array]:
    """The outputs of a model that ``tap`` made, by port."""
    names = [port.get_node().get_friendly_name().rpartition(":") for port in compiled.outputs]
    found = infer(compiled, inputs)
    return {(name, int(index)): one for (name, _, index), one in zip(names, found, strict=True)}


def infer(compiled: ov.CompiledModel, inputs: Sequence[Input]) -> list[Array]:
    request = compiled.create_infer_request()
    types = [port.get_element_type() for port in compiled.inputs]
    given = [
        as_input(one, type_) if isinstance(one, np.ndarray) else one
        for one, type_ in zip(inputs, types, strict=True)
    ]
    request.infer(dict(enumerate(given)))
    return [read_values(tensor) for tensor in request.output_tensors]


def error_where_finite(output: Array, expected: Array) -> float:
    """Relative error where the reference is finite, as masks hold minus infinity; inf if shapes
    differ.
    """
    if output.shape != expected.shape:
        return float("inf")
    if is_string(expected):
        return relative_error([output], [expected])
    finite = np.isfinite(expected.astype(np.float64))
    return relative_error([output[finite]], [expected[finite]])
