"""What infeasible placements cost when it is in proportion to the bytes beyond the limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.backends.protocol import Measurement
from placement_gym.problem import Problem
from placement_gym.rewards import grade_overflow


def penalise_overflow(
    problem: Problem, speedup: FloatArray, feasible: BoolArray, assignments: IntArray
) -> FloatArray:
    """(k,) speed-ups, those of placements beyond memory limits replaced by graded ones.

    Args:
        problem: Limits and support; a unit on a device that does not run it costs the full penalty.
        speedup: (k,) over the reference device.
        feasible: (k,).
        assignments: (k, n_units), which were evaluated.
    """
    graded = speedup.copy()
    for k in np.flatnonzero(~feasible):
        overflow = problem.overflow(assignments[k])
        if overflow and not problem.unsupported(assignments[k]):
            graded[k] = 1.0 / grade_overflow(overflow)
    return graded


def penalise_measurement(
    problem: Problem, measurement: Measurement, assignment: IntArray
) -> Measurement:
    """The measurement of an (n_units,) infeasible assignment with the latency of its penalty."""
    before, infeasible = np.array([measurement.speedup]), np.zeros(1, dtype=np.bool_)
    (speedup,) = penalise_overflow(problem, before, infeasible, assignment[None])
    latency_ms = float(measurement.reference_ms / speedup)
    return replace(measurement, latency_ms=latency_ms, latency_p90_ms=latency_ms)
