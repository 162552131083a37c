"""References of a problem's scores, and whether it says anything about agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placement_gym.bench.known.best_known import is_trivial
from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.run.rows import Json
from placement_gym.bench.study.replay import ROUNDING

ALONE = "this study alone"
NEW = "new in this study"
OPTIMUM = "proven optimum"
TRIVIAL = "Trivial: one device is as fast as any placement that is known."


@dataclass(frozen=True)
class ScoreReference:
    """The lowest latency of a problem that is known.

    Attributes:
        latency_ms: A score is this divided by a run's latency; nan where nothing is known.
        origin: Where it comes from.
        trivial: Whether one device alone reaches it, so that the problem stays out of averages.
    """

    latency_ms: float
    origin: str
    trivial: bool


def choose_score_reference(known: KnownLatencies, rows: Sequence[Json]) -> ScoreReference:
    """The lowest of the proven optimum, the best known value and the latencies of runs.

    Args:
        known: Known latencies of the problem.
        rows: Its runs.
    """
    ran = [row for row in rows if row["latency_ms"]]
    best = min(ran, key=lambda row: row["latency_ms"], default=None)
    found_ms = best["latency_ms"] if best else np.inf
    before_ms = min(known.optimum_ms or np.inf, known.best_known_ms or np.inf)
    least_ms = min(found_ms, before_ms)
    if np.isinf(least_ms):
        return ScoreReference(np.nan, "no run has a latency", trivial=False)
    trivial = bool(np.isfinite(before_ms)) and is_trivial(least_ms, known.best_single_ms)
    if best and np.isinf(before_ms):
        return ScoreReference(least_ms, f"{ALONE}: {best['label']}", trivial=False)
    if best and known.best_known_ms and found_ms < known.best_known_ms * (1 - ROUNDING):
        gain = 1 - found_ms / known.best_known_ms
        origin = f"{NEW}: {best['label']}, {100 * gain:.2g} % below {known.best_known_ms:.6g} ms"
        return ScoreReference(least_ms, f"{origin} by {known.origin}", trivial)
    return ScoreReference(least_ms, known.origin or OPTIMUM, trivial)
