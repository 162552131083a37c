"""The bytes that count against limits, and the effect of exceeding one."""

from __future__ import annotations

import numpy as np

from placement_gym.base import IntArray, UInt8
from placement_gym.problem import Problem
from placement_gym.schedules.simulator import Simulator


def count_bytes(problem: Problem, simulator: Simulator, placement: UInt8) -> IntArray:
    """(n_devices,) bytes that the semantics count; those of weights if they count none."""
    weights, memory = problem.memory_bytes(placement), simulator.semantics.memory
    if memory in ("off", "static"):
        return weights
    outputs = simulator.output_bytes(placement)
    return outputs if memory == "outputs" else weights + outputs


def check_limits(
    problem: Problem, simulator: Simulator, placement: UInt8, used: IntArray
) -> tuple[str, float]:
    """Return why a placement is infeasible, empty if it is not, and its memory penalty in ms.

    ``placement`` is (n_units,) uint8 and holds (n_devices,) ``used`` bytes. The penalty is 0
    without a soft limit.
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
    """The latency of a placement plus its penalty; infinite if it is infeasible."""
    used = count_bytes(problem, simulator, placement)
    error, penalty_ms = check_limits(problem, simulator, placement, used)
    return np.inf if error else simulator.latency_ms(placement) + penalty_ms
