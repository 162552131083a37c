"""The info that comes with every observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from placement_gym.backends.protocol import Measurement
from placement_gym.backends.single_devices import SingleDeviceResults
from placement_gym.base.arrays import IntArray
from placement_gym.problem.problem import Problem, assignment_hash


def make_info(
    problem: Problem, row: IntArray, last: Measurement, singles: SingleDeviceResults
) -> dict[str, Any]:
    """The keys that ``DevicePlacementEnv`` documents, for a row of decisions; arrays are fresh."""
    best, unlimited = singles.best_speedups
    warning = join_warnings(last.warning, singles.warning)
    # Every key on every step, so that loggers and vectors see one structure.
    info = {
        **compare_latency(last.latency_ms, last.reference_ms, best),
        "best_single_unlimited_ms": last.reference_ms / unlimited,
        "latency_p90_ms": last.latency_p90_ms,
        "noise": last.noise,
        "noise_floor": last.noise_floor,
        "warning": warning,
        "interference": last.interference,
        # Names of version 0.2, kept for one release.
        "doubt": warning,
        "taken": last.interference,
        "n_submodels": last.n_submodels,
        "n_submodels_expected": last.n_submodels_expected,
        "n_transfers": last.n_transfers,
        "transfer_bytes": last.transfer_bytes,
        "memory_bytes": np.array(last.memory_bytes, dtype=np.int64),
        "excess_bytes": last.excess_bytes,
        "compile_s": last.compile_s,
        "measure_s": last.measure_s,
        "cached": last.cached,
        "feasible": not last.error,
        "repaired": last.repaired,
        "error": last.error,
        "placement_hash": assignment_hash(row),
        "devices": problem.device_names,
        "testbed": problem.testbed,
    }
    info |= last.parts_ms
    # Only throughput has these.
    for key in ("requests", "streams"):
        if (value := getattr(last, key)) is not None:
            info[key] = value
    if last.requests is not None:
        info["requests_per_s"] = 1e3 / last.latency_ms
    return info


def compare_latency(latency_ms: Any, reference_ms: Any, best_single: float) -> dict[str, Any]:
    """The keys that compare latencies, of one placement or (num_envs,) of several.

    Args:
        latency_ms: Of the placements.
        reference_ms: Of the reference device, measured alongside.
        best_single: Speed-up of the best single device.
    """
    speedup = reference_ms / latency_ms
    return {
        "latency_ms": latency_ms,
        "reference_ms": reference_ms,
        "best_single_ms": reference_ms / best_single,
        "speedup": speedup,
        "speedup_vs_best_single": speedup / best_single,
    }


def join_warnings(warning: str, singles_warning: str) -> str:
    """Join the warnings of a measurement and of the single devices, if they differ."""
    if not singles_warning or singles_warning == warning:
        return warning
    reason = f"single devices: {singles_warning}"
    return f"{warning}; {reason}" if warning else reason
