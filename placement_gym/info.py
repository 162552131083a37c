"""The info that comes with every observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.backends.protocol import Measurement
from placement_gym.problem import Problem, assignment_hash


def make_info(
    problem: Problem,
    assignment: IntArray,
    last: Measurement,
    best_speedups: tuple[float, float],
    doubt_of_singles: str = "",
) -> dict[str, Any]:
    """The keys that ``DevicePlacementEnv`` documents; arrays are fresh.

    Args:
        problem: Names of devices.
        assignment: (n_units,) the current placement.
        last: Its measurement.
        best_speedups: Of the fastest single device, within memory limits and without them.
        doubt_of_singles: Why these are uncertain, or an empty string.
    """
    best, unlimited = best_speedups
    phases = {"prefill_ms": last.prefill_ms, "token_ms": last.token_ms}
    in_flight = {
        "requests_per_s": None if last.requests is None else 1e3 / last.latency_ms,
        "requests": last.requests,
        "streams": last.streams,
    }
    doubts = [last.doubt]
    if doubt_of_singles and doubt_of_singles != last.doubt:
        doubts.append(f"single devices: {doubt_of_singles}")
    return {
        "latency_ms": last.latency_ms,
        "reference_ms": last.reference_ms,
        "best_single_ms": last.reference_ms / best,
        "best_single_unlimited_ms": last.reference_ms / unlimited,
        "speedup": last.speedup,
        "speedup_vs_best_single": last.speedup / best,
        "latency_p90_ms": last.latency_p90_ms,
        "noise": last.noise,
        "noise_floor": last.noise_floor,
        "doubt": "; ".join(filter(None, doubts)),
        "n_submodels": last.n_submodels,
        "n_submodels_expected": last.n_submodels_expected,
        "n_transfers": last.n_transfers,
        "transfer_bytes": last.transfer_bytes,
        "memory_bytes": np.array(last.memory_bytes, dtype=np.int64),
        "compile_s": last.compile_s,
        "measure_s": last.measure_s,
        "cached": last.cached,
        "feasible": last.feasible,
        "repaired": last.repaired,
        "error": last.error,
        "placement_hash": assignment_hash(assignment),
        "devices": problem.device_names,
        "testbed": problem.testbed,
        **{key: value for key, value in (phases | in_flight).items() if value is not None},
    }
