"""Memory that placements hold on each device, and what follows where it exceeds a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8, kernel
from placement_gym.problem import Problem
from placement_gym.schedules.program import Program

if TYPE_CHECKING:
    from placement_gym.schedules.simulator import Simulator


@kernel
def held_bytes(placements: UInt8, unit_bytes: FloatArray, n_devices: int) -> FloatArray:
    """(k, n_devices) bytes of weights on each device, for (k, n_units) uint8 placements."""
    device_bytes = np.zeros((len(placements), n_devices))
    for k in range(len(placements)):
        for unit in range(len(unit_bytes)):
            device_bytes[k, placements[k, unit]] += unit_bytes[unit]
    return device_bytes


def peak_bytes(
    program: Program,
    tensor_bytes: IntArray,
    operator_devices: UInt8,
    start: FloatArray,
    finish: FloatArray,
    n_devices: int,
) -> IntArray:
    """(n_devices,) peak of live outputs.

    An operator's tensors occupy memory on its own device from its start until their last reader has
    finished; memory released at a moment can be reused at that moment. Copies on receiving devices
    are not counted, as in Placeto's simulator.

    Args:
        program: Operators and tensors.
        tensor_bytes: (n_tensors,) in the program's order.
        operator_devices: (n_operators,) device of each operator.
        start: (n_operators,) ms.
        finish: (n_operators,) ms.
        n_devices: Number of devices.
    """
    end = np.maximum.reduceat(finish[program.readers], program.first_reader[:-1])
    device = operator_devices[program.source]
    times = np.concatenate([end, start[program.source]])
    change = np.concatenate([-tensor_bytes, tensor_bytes])
    order = np.lexsort((change, times))
    peaks = np.zeros(n_devices, dtype=np.int64)
    for d in range(n_devices):
        here = np.concatenate([device, device])[order] == d
        peaks[d] = np.cumsum(change[order][here]).max(initial=0)
    return peaks


def count_bytes(problem: Problem, simulator: Simulator, placement: UInt8) -> IntArray:
    """(n_devices,) bytes that the semantics count; weights if they count nothing."""
    weights, memory = problem.memory_bytes(placement), simulator.semantics.memory
    if memory in ("off", "static"):
        return weights
    outputs = simulator.output_bytes(placement)
    return outputs if memory == "outputs" else weights + outputs


def check_limits(
    problem: Problem, simulator: Simulator, placement: UInt8, used: IntArray
) -> tuple[str, float]:
    """Return why a placement is infeasible, or the penalty of its memory in ms.

    Args:
        problem: Units, devices and limits.
        simulator: Its semantics say what a limit means.
        placement: (n_units,) uint8.
        used: (n_devices,) bytes that it holds on each device.

    Returns:
        An empty string if it is feasible; and the penalty, 0 without a soft limit.
    """
    error, axes = problem.support_error(placement), simulator.semantics
    if not error and problem.max_submodels is not None:
        error = problem.submodel_error(int(simulator.submodels(placement).sum()))
    if error or axes.memory == "off" or not problem.limited:
        return error, 0.0
    if axes.memory_penalty_ms_per_gb is None:
        return problem.memory_error(used), 0.0
    excess = problem.memory.excess(used)
    return "", float(axes.memory_penalty_ms_per_gb * excess.sum() / 1e9)


def cost_ms(problem: Problem, simulator: Simulator, placement: UInt8) -> float:
    """The latency of a placement with its penalty, infinite if it is infeasible."""
    used = count_bytes(problem, simulator, placement)
    error, penalty_ms = check_limits(problem, simulator, placement, used)
    return np.inf if error else simulator.latency_ms(placement) + penalty_ms
