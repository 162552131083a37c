"""The time of each operator on a device alone, from OpenVINO's performance counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.arrays import FloatArray
from placement_gym.devices import DeviceSpec
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.primitives import members_of_primitives

if TYPE_CHECKING:
    import openvino as ov

WARMUP = 5


def measure_operator_times(
    core: ov.Core,
    model: ov.Model,
    graph: OpGraph,
    device: DeviceSpec,
    inputs: Sequence[NDArray[Any]],
    inferences: int,
    beat: Callable[[str], object],
) -> FloatArray:
    """(n_operators,) median ms of the primitive that executes each operator.

    The time of a primitive goes to the operator with the most FLOPs among those that it fuses.
    Primitives of no operator, such as reorders that the device inserted, are left out.

    Args:
        core: Where ``device`` is registered.
        model: As ``models.load`` returns it.
        graph: The operators of ``model``.
        device: The device, with its settings.
        inputs: One array per input of the model.
        inferences: Number of inferences whose counters are read.
        beat: Called with the name of each step as it begins.
    """
    properties = device.compile_properties() | {"PERF_COUNT": True}
    beat("compiling with counters")
    compiled = core.compile_model(model, device.name, properties)
    beat("the first inference with counters")
    request = compiled.create_infer_request()
    request.infer(dict(enumerate(inputs)))
    for _ in range(WARMUP):
        beat("an inference with counters")
        request.infer()
    samples: dict[str, list[float]] = {}
    for _ in range(inferences):
        beat("an inference with counters")
        request.infer()
        for primitive in request.profiling_info:
            ms = primitive.real_time.total_seconds() * 1e3
            samples.setdefault(primitive.node_name, []).append(ms)
    owner = {name: i for i, names in enumerate(graph.members) for name in names}
    fused = members_of_primitives(compiled)
    times = np.zeros(len(graph))
    for primitive_name, ms_list in samples.items():
        names = [*fused.get(primitive_name, ()), primitive_name]
        owners = [owner[name] for name in names if name in owner]
        if owners:
            times[max(owners, key=lambda i: (graph.flops[i], -i))] += float(np.median(ms_list))
    return times
