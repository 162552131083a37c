"""Searches that propose placements and are told their latencies."""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import perf_counter

import numpy as np

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.problem import Problem

Proposals = Generator[IntArray, FloatArray, None]
"""Yields (k, n_units) placements to evaluate and is sent their (k,) latencies, infinite where a
placement is infeasible. Latencies may be in any unit."""
Evaluate = Callable[[IntArray], FloatArray]
Report = Callable[[int, float], None]


class Found:
    """Placements that were evaluated."""

    def __init__(self) -> None:
        self.placements: list[IntArray] = []
        self.latencies: list[float] = []

    def add(self, placements: IntArray, latencies: FloatArray) -> None:
        """Add evaluated placements."""
        self.placements += list(placements)
        self.latencies += latencies.tolist()

    def best(self, k: int, apart: float = 0.0) -> list[int]:
        """Indices of at most ``k`` placements, fastest first, that differ from each other.

        Args:
            k: How many.
            apart: Any two differ in more than this share of the units.
        """
        chosen: list[int] = []
        for i in np.argsort(self.latencies, kind="stable").tolist():
            differs = [(self.placements[i] != self.placements[j]).mean() > apart for j in chosen]
            if len(chosen) < k and all(differs):
                chosen.append(i)
        return chosen

    def __len__(self) -> int:
        return len(self.placements)


def run_search(
    problem: Problem,
    proposals: Proposals,
    evaluate: Evaluate,
    evaluations: int,
    time_limit_s: float = np.inf,
    report: Report | None = None,
) -> IntArray:
    """Evaluate proposals until the budget or the time is spent.

    Args:
        problem: What is placed.
        proposals: The search.
        evaluate: (k, n_units) placements to their (k,) latencies, infinite where infeasible.
        evaluations: How many placements may be evaluated.
        time_limit_s: Wall-clock limit, checked between evaluations.
        report: Is told the evaluations so far and the least latency.

    Returns:
        (n_units,) the fastest placement; everything on the reference device if none is feasible.
    """
    end = perf_counter() + time_limit_s
    best, best_ms, done = problem.single(problem.reference_device), np.inf, 0
    placements = next(proposals)
    while done < evaluations and perf_counter() < end:
        tried = placements[: evaluations - done]
        latencies = evaluate(tried)
        done += len(tried)
        if latencies.min() < best_ms:
            best, best_ms = tried[latencies.argmin()].copy(), float(latencies.min())
        if report is not None:
            report(done, best_ms)
        if done < evaluations:
            placements = proposals.send(latencies)
    return best
