"""Latencies measured in slow and in fast moments, made comparable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies import read_rows

from placement_gym.bench.report import correct_drift


def test_latencies_of_different_moments_compare_by_speedup() -> None:
    fast = {"latency_ms": 8.0, "speedup": 2.5, "speedup_vs_best_single": 1.25}
    slow = {"latency_ms": 15.0, "speedup": 3.0, "speedup_vs_best_single": 1.5}
    empty = {"greedy_latency_ms": None, "greedy_speedup": None}
    greedy = {"greedy_latency_ms": 40.0, "greedy_speedup": 1.0}
    scored = {"scored_ms": 6.0, "scored_speedup": 2.0}
    apart = [
        fast | empty | scored | {"problem": "p"},
        slow | greedy | scored | {"problem": "p"},
        slow | empty | {"problem": "q", "scored_ms": None, "scored_speedup": None},
    ]
    first, second, other = correct_drift(apart)
    alone_ms, reference_ms = np.median([8 * 1.25, 15 * 1.5]), np.median([8 * 2.5, 15 * 3])
    assert first["latency_ms"] == pytest.approx(alone_ms / 1.25)
    assert second["latency_ms"] == pytest.approx(alone_ms / 1.5)
    assert second["greedy_latency_ms"] == pytest.approx(reference_ms)
    assert first["greedy_latency_ms"] is None
    assert first["scored_ms"] == pytest.approx(6.0)
    assert other["latency_ms"] == pytest.approx(15.0)


def test_simulated_latencies_stay_as_they_are(folder: Path) -> None:
    for before, after in zip(read_rows(folder), correct_drift(read_rows(folder)), strict=True):
        for field in ("latency_ms", "greedy_latency_ms"):
            assert before[field] == (before[field] and pytest.approx(after[field], rel=1e-12))
