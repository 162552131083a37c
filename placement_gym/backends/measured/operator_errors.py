"""Errors of single operators on a device, given the reference device's activations.

Two compilations cover all operators: the model is cut at every tensor, so no error reaches the next
operator. Devices fuse less than in the whole model, so placements have to confirm an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.backends.measured.candidate import HostedModel
from placement_gym.backends.measured.choice_errors import Array
from placement_gym.backends.measured.choices import Choice, ChoosingModel, add_outputs
from placement_gym.backends.measured.outputs import infer, is_string, relative_error
from placement_gym.backends.measured.stages import WHOLE_MODEL, CutStage, cut_model
from placement_gym.base import BoolArray, FloatArray
from placement_gym.graph import find_random, separate_parts
from placement_gym.hardware import compile_on
from placement_gym.models import Input, as_input, read_values
from placement_gym.workloads import Outputs

if TYPE_CHECKING:
    import openvino as ov

NodeOutput = tuple[str, int]
"""Name and output index of a node."""


def measure_operator_errors(
    host: HostedModel, device: int, selected: BoolArray, tolerance: float
) -> FloatArray:
    """(n_operators,) relative error of each operator's outputs, given the reference's inputs.

    Operators that are not ``selected``, or that draw random numbers, have NaN. ``tolerance`` limits
    errors of the values that a choice picks.
    """
    import openvino as ov

    problem, graph = host.problem, host.problem.units.graph
    selected = selected & ~np.isin(graph.names, list(find_random(host.model)))
    reference, spec = problem.devices[problem.reference_device], problem.devices[device]
    # Each operator becomes a part between Parameters and Results.
    cut = host.model.clone()
    stages, _ = cut_model(cut, separate_parts(cut, graph, np.arange(len(graph))))
    parts = [(operator, stages[operator]) for operator in np.flatnonzero(selected).tolist()]
    # The reference device computes the inputs of all parts, in the whole model.
    inputs = host.samples[0][0]
    ports = list(dict.fromkeys(port for part in stages for port in list_ports(part)))
    whole = host.model.clone()
    nodes = {node.get_friendly_name(): node for node in whole.get_ops()}
    add_outputs(whole, (nodes[name].output(index) for name, index in ports))
    host.beat("compiling with all activations as outputs")
    compiled = compile_on(host.core, whole, reference, "the model with all activations as outputs")
    computed = run_once(compiled, inputs)[len(host.model.outputs) :]
    activations = dict(zip(ports, computed, strict=True))
    # The device runs all parts as one model on these activations.
    pieces = ov.Model(
        [result for _, part in parts for result in part.results],
        [array for _, part in parts for array in part.inputs.values()],
        "operators",
    )
    host.beat("compiling operators apart")
    compiled = compile_on(host.core, pieces, spec, "operators apart")
    piece_inputs: list[Input] = [
        inputs[source[1]] if source[0] == WHOLE_MODEL else activations[port]
        for _, part in parts
        for source, port in zip(part.sources, part.inputs, strict=True)
    ]
    host.beat("an inference")
    outputs = iter(run_once(compiled, piece_inputs))
    # A choice is judged by the values that it picks, other outputs by their difference.
    errors = np.full(len(graph), np.nan)
    choices = {choice.name: choice for choice in ChoosingModel(host.model).choices}
    known = list_known(host.model, inputs, choices.values()) | activations
    for operator, part in parts:
        made = {port: next(outputs) for port in list_ports(part)}
        found = [
            find_choice_error(choices[port[0]], made, known, tolerance)
            if port[0] in choices
            else error_where_finite(array, activations[port])
            for port, array in made.items()
        ]
        errors[operator] = np.nanmax([0.0, *found])
    return errors


def find_choice_error(
    choice: Choice,
    made: Mapping[NodeOutput, Array],
    known: Mapping[NodeOutput, Array],
    limit: float,
) -> float:
    """The error of a choice by the values that it picks; NaN if one of these is not known."""
    outputs = {index: array for (name, index), array in made.items() if name == choice.name}
    # An operator that chooses inside is judged by its outputs, of which some are not read.
    indices: Iterable[int] = outputs if choice.is_inside else choice.sources
    sources = {index: choice.sources[index] for index in indices}
    if not known.keys() >= set(sources.values()):
        return np.nan
    return choice.find_error({i: known[port] for i, port in sources.items()}, outputs, limit)


def list_known(
    model: ov.Model, inputs: Sequence[Input], choices: Iterable[Choice]
) -> dict[NodeOutput, Array]:
    """The values of inputs, and of constants that choices read."""
    sources = {port for choice in choices for port in choice.sources.values()}
    nodes = {(node.get_friendly_name(), 0): node for node in model.get_ops()}
    known = {
        port: read_values(nodes[port].tensor_view)
        for port in sources & nodes.keys()
        if nodes[port].get_type_name() == "Constant"
    }
    for node, values in zip(model.get_parameters(), inputs, strict=True):
        array = values if isinstance(values, np.ndarray) else read_values(values)
        known[node.get_friendly_name(), 0] = array
    return known


def list_ports(part: CutStage) -> list[NodeOutput]:
    """The name and output index of the source of each result of a part."""
    sources = [result.input(0).get_source_output() for result in part.results]
    return [(source.get_node().get_friendly_name(), source.get_index()) for source in sources]


def run_once(compiled: ov.CompiledModel, inputs: Sequence[Input]) -> Outputs:
    """Run a new request on inputs; arrays are converted to the types that it takes."""
    types = [port.get_element_type() for port in compiled.inputs]
    values = [
        as_input(array, type_) if isinstance(array, np.ndarray) else array
        for array, type_ in zip(inputs, types, strict=True)
    ]
    return infer(compiled.create_infer_request(), values)


def error_where_finite(output: Array, expected: Array) -> float:
    """Relative error where the reference is finite (masks are not); inf if shapes differ."""
    if output.shape != expected.shape:
        return float("inf")
    if is_string(expected):
        return relative_error([output], [expected])
    finite = np.isfinite(expected.astype(np.float64))
    return relative_error([output[finite]], [expected[finite]])
