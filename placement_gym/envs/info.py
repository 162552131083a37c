"""The info of a placement."""

from __future__ import annotations

from typing import Any

import numpy as np

from placement_gym.backends import Measurement, SingleDeviceResults
from placement_gym.base import IntArray
from placement_gym.problem import Problem, assignment_hash


def make_info(
    problem: Problem, row: IntArray, measurement: Measurement, singles: SingleDeviceResults
) -> dict[str, Any]:
    """The keys that ``DevicePlacementEnv`` documents, for a row of decisions, in new arrays."""
    best, unlimited = singles.best_speedups
    # Every step has every key: loggers and vector environments need one structure.
    info = {
        **compare_latency(measurement.latency_ms, measurement.reference_ms, best),
        "best_single_unlimited_ms": measurement.reference_ms / unlimited,
        "latency_p90_ms": measurement.latency_p90_ms,
        "noise": measurement.noise,
        "warning": join_warnings(measurement.warning, singles.warning),
        "interference": measurement.interference,
        "n_submodels": measurement.n_submodels,
        "n_submodels_expected": measurement.n_submodels_expected,
        "n_transfers": measurement.n_transfers,
        "transfer_bytes": measurement.transfer_bytes,
        "memory_bytes": np.array(measurement.memory_bytes, dtype=np.int64),
        "excess_bytes": measurement.excess_bytes,
        "compile_s": measurement.compile_s,
        "measure_s": measurement.measure_s,
        "cached": measurement.cached,
        "feasible": not measurement.error,
        "repaired": measurement.repaired,
        "error": measurement.error,
        "placement_hash": assignment_hash(row),
        "devices": problem.device_names,
        "testbed": problem.testbed,
    }
    info |= measurement.parts_ms
    if measurement.requests is not None:  # only measured throughput has these
        info |= {"requests": measurement.requests, "streams": measurement.streams}
        info["requests_per_s"] = 1e3 / measurement.latency_ms
    return info


def compare_latency(latency_ms: Any, reference_ms: Any, best_single: float) -> dict[str, Any]:
    """The keys that compare latencies, numbers or (num_envs,) arrays.

    ``best_single`` is the speed-up of the best single device.
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
    reasons = [warning] if warning else []
    if singles_warning not in ("", warning):
        reasons.append(f"single devices: {singles_warning}")
    return "; ".join(reasons)
