"""Correct latencies for the drift of the machine between measurements.

The speed of a machine varies over time, so latencies of different moments cannot be compared. What
can be compared is the speed-up over a device that was measured in the same interleaved run. The
corrected latency of a row is the median latency of that device over all rows of the problem,
divided by the row's own speed-up over it. Simulated latencies do not change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_gym.bench.run import Json, group_by

NOTE = (
    "Latencies were measured at different moments and are corrected for drift: each is the median "
    "of the device it was measured with, over all runs, divided by its speed-up over that device."
)


def correct_drift(rows: Sequence[Json]) -> list[Json]:
    """Make the latencies of rows comparable within each problem.

    Corrected are ``latency_ms``, ``latency_p90_ms``, ``greedy_latency_ms`` and ``scored_ms``.
    """
    groups = group_by("problem", rows).values()
    return [row for group in groups for row in _correct_problem(group)]


def median_device_ms(rows: Sequence[Json], latency: str, speedup: str) -> float:
    """Median latency of the device that the speed-ups are relative to; nan without rows."""
    device_ms = [row[latency] * row[speedup] for row in rows if row[latency] and row[speedup]]
    return float(np.median(device_ms)) if device_ms else np.nan


def _correct_problem(rows: Sequence[Json]) -> list[Json]:
    single_ms = median_device_ms(rows, "latency_ms", "speedup_vs_best_single")
    reference_ms = median_device_ms(rows, "latency_ms", "speedup")
    elsewhere_ms = median_device_ms(rows, "scored_ms", "scored_speedup")
    devices = {
        "latency_ms": (single_ms, "speedup_vs_best_single"),
        "greedy_latency_ms": (reference_ms, "greedy_speedup"),
        "scored_ms": (elsewhere_ms, "scored_speedup"),
    }
    corrected = []
    for row in rows:
        changes = {
            latency: device_ms / row[speedup]
            for latency, (device_ms, speedup) in devices.items()
            if row[latency] and row[speedup]
        }
        if row.get("latency_p90_ms") and "latency_ms" in changes:
            changes["latency_p90_ms"] = (
                row["latency_p90_ms"] * changes["latency_ms"] / row["latency_ms"]
            )
        corrected.append(row | changes)
    return corrected
