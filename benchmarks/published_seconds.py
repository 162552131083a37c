"""Seconds of a core for ``published.py``: what a run takes, and runs that stop after so many."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import Any

from placement_gym.backends.protocol import Backend
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached


class Programs:
    """Solves the serial program of each problem once: its answer depends on nothing else.

    Args:
        solve: The solver.
    """

    def __init__(self, solve: Callable[..., Any]) -> None:
        self.solve = solve
        self.known: dict[str, tuple[Any, float]] = {}
        self.spent_s = self.owed_s = 0.0

    def __call__(self, problem: Any, costs: Any, *limits: Any) -> Any:
        key = f"{problem.units.graph.model} {problem.devices} {costs.link_ms_per_size.sum()}"
        if key not in self.known:
            started = process_time()
            found = self.solve(problem, costs, *limits)
            self.known[key] = found, process_time() - started
            self.spent_s += self.known[key][1]
        found, seconds = self.known[key]
        self.owed_s += seconds
        return found

    def time_without_s(self) -> float:
        """CPU seconds of this process, without programs."""
        return process_time() - self.spent_s

    def time_with_s(self) -> float:
        """CPU seconds of this process if every program were solved whenever it is asked for."""
        return self.time_without_s() + self.owed_s


class TimedBackend(BudgetedBackend):
    """Stops after CPU seconds; its curve has them, and its history stays empty.

    Args:
        inner: The backend that evaluates.
        limit_s: CPU seconds from now.
        clock: Returns CPU seconds.
    """

    def __init__(self, inner: Backend, limit_s: float, clock: Callable[[], float]) -> None:
        super().__init__(inner, sys.maxsize)
        self.limit_s, self.clock, self.begin_s = limit_s, clock, clock()
        self.n = self.infeasible = 0

    @property
    def evaluations(self) -> int:
        return self.n

    @property
    def n_infeasible(self) -> int:
        return self.infeasible

    def record(self, assignment: Any, speedup: float, error: str) -> None:
        """Count an evaluation; one that comes too late stops the run and does not count.

        Raises:
            BudgetReached: The seconds are spent.
        """
        passed_s = self.clock() - self.begin_s
        if passed_s > self.limit_s:
            raise BudgetReached(f"{self.n} evaluations in {passed_s:.1f} s")
        self.n += 1
        self.infeasible += bool(error)
        if not error and speedup > (self.curve[-1][2] if self.curve else 0.0):
            self.curve.append((self.n, round(passed_s, 4), speedup))
