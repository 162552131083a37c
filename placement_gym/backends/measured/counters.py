"""The time of each operator on a device alone, from OpenVINO's performance counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.backends.measured.inferences import Inputs
from placement_gym.base.arrays import FloatArray
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.primitives import members_of_primitives
from placement_gym.hardware.devices import DeviceSpec

if TYPE_CHECKING:
    import openvino as ov

WARMUP = 5


def measure_operator_times(
    core: ov.Core,
    model: ov.Model,
    graph: OpGraph,
    device: DeviceSpec,
    steps: Sequence[Inputs],
    stateful: bool,
    inferences: int,
    beat: Callable[[str], object],
) -> FloatArray:
    """(n_operators,) median ms of the primitive that executes each operator.

    The time of a primitive goes to the operator with the most FLOPs among those that it fuses;
    of a primitive that fuses none, as one that only rounds, to the operator that its nodes belong
    to. Primitives of no operator, such as reorders that the device inserted, are left out.

    Args:
        core: Where ``device`` is registered.
        model: As ``models.load`` returns it.
        graph: The operators of ``model``.
        device: The device, with its settings.
        steps: (n_inferences,) one array per input of the model for each inference of its scenario;
            a single one for a model without state.
        stateful: Whether the model keeps state; times are then sums over the scenario.
        inferences: Number of inferences, or scenarios, whose counters are read.
        beat: Called with the name of each step as it begins.
    """
    # Counters cost time: no latency is ever measured by a model compiled like this.
    properties = device.compile_properties() | {"PERF_COUNT": True}
    beat("compiling with counters")
    compiled = core.compile_model(model, device.name, properties)
    beat("the first inference with counters")
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(steps[0])))
    samples: dict[str, list[float]] = {}
    # The first runs warm caches up, as before any measurement.
    for run in range(WARMUP + inferences):
        for name, ms in run_with_counters(request, steps if stateful else [[]], beat).items():
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
