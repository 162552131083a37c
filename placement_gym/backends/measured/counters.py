"""Primitives that a device executes, and by its counters the time of each operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends.measured.inferences import Inputs
from placement_gym.backends.pipeline.stage import compile_on
from placement_gym.base.arrays import FloatArray

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.backends.measured.candidate import Engine

WARMUP = 5


def measure_operator_times(engine: Engine, device: int, prefill: bool = False) -> FloatArray:
    """(n_operators,) median ms of the primitive that executes each operator.

    The time of a primitive goes to the operator with the most FLOPs among those that it fuses;
    of a primitive that fuses none, as one that only rounds, to the operator that its nodes belong
    to. Primitives of no operator, such as reorders that the device inserted, are left out.

    Args:
        engine: The model, its inputs and the devices. Times of a model with state are sums
            over its scenario.
        device: Index of the device.
        prefill: Of a model with state, time its prefill alone.
    """
    graph, spec = engine.problem.units.graph, engine.problem.devices[device]
    steps, beat = engine.steps[:1] if prefill else engine.steps, engine.reporter.beat
    # Counters cost time: no latency is ever measured by a model compiled like this.
    beat("compiling with counters")
    compiled = compile_on(engine.core, engine.model, spec, "the model", {"PERF_COUNT": True})
    beat("the first inference with counters")
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(steps[0])))
    samples: dict[str, list[float]] = {}
    # The first runs warm caches up, as before any measurement.
    for run in range(WARMUP + engine.protocol.counter_inferences):
        counted = run_with_counters(request, steps if engine.stateful else [[]], beat)
        for name, ms in counted.items():
            if run >= WARMUP:
                samples.setdefault(name, []).append(ms)
    # Counters name primitives as executed. They are led back to operators by the nodes that they
    # fuse.
    operators = {name: i for i, name in enumerate(graph.names)}
    owner = {name: i for i, names in enumerate(graph.members) for name in names}
    fused = members_of_primitives(compiled)
    times = np.zeros(len(graph))
    for primitive_name, ms_list in samples.items():
        names = [*fused.get(primitive_name, ()), primitive_name]
        # A primitive also fuses what rounds its output, and that belongs to the next operator.
        owners = [operators[name] for name in names if name in operators]
        owners = owners or [owner[name] for name in names if name in owner]
        # The operator with most work is why the primitive exists; of equal ones the first, so that
        # the result does not depend on the order of names.
        if owners:
            times[max(owners, key=lambda i: (graph.flops[i], -i))] += float(np.median(ms_list))
    return times


def run_with_counters(
    request: ov.InferRequest, steps: Sequence[Inputs], beat: Callable[[str], object]
) -> dict[str, float]:
    """Run each step on a state that is reset; primitive -> its ms in all of them together.

    Args:
        request: Of a model that is compiled with counters.
        steps: Inputs of each inference; an empty list keeps those that are set.
        beat: Called with the name of each step as it begins.
    """
    request.reset_state()
    total: dict[str, float] = {}
    for inputs in steps:
        beat("an inference with counters")
        request.infer(dict(enumerate(inputs)))
        for primitive in request.profiling_info:
            ms = primitive.real_time.total_seconds() * 1e3
            total[primitive.node_name] = total.get(primitive.node_name, 0.0) + ms
    return total


def query_primitives(
    core: ov.Core, model: ov.Model, device: str, properties: dict[str, Any]
) -> dict[str, str]:
    """Compile a model; map each surviving IR node's friendly name to the name of its primitive.

    Args:
        core: The core in which ``device`` is registered.
        model: Any model that the device supports.
        device: OpenVINO device name; its fusions are a proxy for those of other devices.
        properties: Compile properties, as precision changes what is fused.
    """
    members = members_of_primitives(core.compile_model(model, device, properties))
    return {name: primitive for primitive, names in members.items() for name in names}


def members_of_primitives(compiled: ov.CompiledModel) -> dict[str, list[str]]:
    """Map the name of each primitive to the friendly names of the IR nodes that it executes."""
    members: dict[str, list[str]] = {}
    for node in compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        if "originalLayersNames" in info:
            names = info["originalLayersNames"].astype(str).split(",")
            members[node.get_friendly_name()] = [name for name in names if name]
    return members
