"""Latencies that were measured at different moments, as if at one.

A machine is not equally fast all day. What holds is how a placement compares with a device that was
measured beside it; a latency in the frame of a problem is that device's median over all rows,
divided by the placement's own speed-up over it. Simulated latencies stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from placement_gym.bench.run.rows import Json


def correct_drift(rows: Sequence[Json]) -> list[Json]:
    """Rows whose ``latency_ms``, ``greedy_latency_ms`` and ``scored_ms`` can be compared."""
    return [row for problem in by_problem(rows) for row in framed(problem)]


def by_problem(rows: Iterable[Json]) -> list[list[Json]]:
    """The rows of each problem."""
    groups: dict[str, list[Json]] = {}
    for row in rows:
        groups.setdefault(row["problem"], []).append(row)
    return list(groups.values())


def framed(rows: Sequence[Json]) -> list[Json]:
    """Rows of one problem in its frame."""
    single_ms = device_ms(rows, "latency_ms", "speedup_vs_best_single")
    reference_ms = device_ms(rows, "latency_ms", "speedup")
    elsewhere_ms = device_ms(rows, "scored_ms", "scored_speedup")
    frames = {
        "latency_ms": (single_ms, "speedup_vs_best_single"),
        "greedy_latency_ms": (reference_ms, "greedy_speedup"),
        "scored_ms": (elsewhere_ms, "scored_speedup"),
    }
    return [row | latencies_in(frames, row) for row in rows]


def latencies_in(frames: Mapping[str, tuple[float, str]], row: Json) -> Json:
    """A row's latencies from its speed-ups: field -> (ms of the device, field of the speed-up)."""
    return {
        field: base_ms / row[speedup]
        for field, (base_ms, speedup) in frames.items()
        if row[field] and row[speedup]
    }


def device_ms(rows: Sequence[Json], latency: str, speedup: str) -> float:
    """Median latency of the device that the speed-ups are over; nan without rows."""
    found = [row[latency] * row[speedup] for row in rows if row[latency] and row[speedup]]
    return float(np.median(found)) if found else np.nan
