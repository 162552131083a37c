"""Equal budgets: every evaluated placement counts, whoever evaluates it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np

from placement_gym.backends.protocol import Backend, Batch, Measurement
from placement_gym.backends.verdicts import CONTENDER_SHARE
from placement_gym.backends.wrapper import BackendWrapper
from placement_gym.base.arrays import BoolArray, IntArray

INFEASIBLE = "infeasible"


class Evaluation(NamedTuple):
    """An evaluated placement, and why it failed if it did."""

    assignment: IntArray
    speedup: float
    error: str


class BudgetReached(Exception):  # noqa: N818  a signal, not an error
    """The agent has used its budget of evaluations."""


class BudgetedBackend(BackendWrapper):
    """Counts evaluations, repeated and cached ones included, and stops at the budget.

    Measurements of single devices and of finalists are not counted.

    Args:
        inner: The backend that evaluates.
        budget: Evaluations allowed; the next one raises ``BudgetReached``.
        on_evaluation: Called after each evaluation.
    """

    def __init__(
        self, inner: Backend, budget: int, on_evaluation: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(inner)
        self.budget = budget
        self.on_evaluation = on_evaluation
        self.history: list[Evaluation] = []
        self.curve: list[tuple[int, float, float]] = []
        self.repaired: list[int] = []
        self.started = perf_counter()

    @property
    def wall_s(self) -> float:
        """Seconds since the budget was given."""
        return round(perf_counter() - self.started, 3)

    @property
    def evaluations(self) -> int:
        return len(self.history)

    @property
    def n_infeasible(self) -> int:
        """Evaluations whose placement did not fit or run."""
        return sum(bool(one.error) for one in self.history)

    @property
    def n_repaired(self) -> int:
        """Evaluations whose placement did not fit as proposed and was repaired first."""
        return sum(at < self.evaluations for at in self.repaired)

    def note_repairs(self, repaired: BoolArray) -> None:
        """Take which of the placements that are evaluated next were repaired."""
        self.repaired += (self.evaluations + np.flatnonzero(repaired)).tolist()

    def evaluate(self, assignment: IntArray) -> Measurement:
        """See ``Backend.evaluate``.

        Raises:
            BudgetReached: The budget is spent.
        """
        self.check_budget()
        measurement = self.inner.evaluate(assignment)
        self.record(assignment, measurement.speedup, measurement.error)
        return measurement

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        """See ``Backend.evaluate_batch``; placements beyond the budget are not evaluated.

        Raises:
            BudgetReached: The budget does not suffice for all of them.
        """
        self.check_budget()
        within = assignments[: self.budget - self.evaluations]
        batch = self.inner.evaluate_batch(within)
        for assignment, speedup, feasible in zip(within, *batch, strict=True):
            self.record(assignment, float(speedup), "" if feasible else INFEASIBLE)
        if len(within) < len(assignments):
            self.check_budget()
        return batch

    def check_budget(self) -> None:
        if self.evaluations >= self.budget:
            raise BudgetReached(f"{self.budget} evaluations")

    def record(self, assignment: IntArray, speedup: float, error: str) -> None:
        """Keep what was evaluated, and the curve of (evaluations, seconds, best speed-up)."""
        self.history.append(Evaluation(assignment.copy(), speedup, error))
        best = self.curve[-1][2] if self.curve else 0.0
        if not error and speedup > best:
            self.curve.append((self.evaluations, self.wall_s, speedup))
        self.on_evaluation()

    def best(self, n: int) -> list[IntArray]:
        """The ``n`` fastest distinct feasible placements of the history.

        Placements slower than ``CONTENDER_SHARE`` of the fastest are left out.
        """
        feasible = [one for one in self.history if not one.error]
        ranked = sorted(feasible, key=lambda one: -one.speedup)
        distinct = {
            one.assignment.tobytes(): one.assignment
            for one in ranked
            if one.speedup >= CONTENDER_SHARE * ranked[0].speedup
        }
        return list(distinct.values())[:n]

    def explain_failure(self) -> str:
        """The latest failure, which is why there is no finalist."""
        failed = [one for one in self.history if one.error]
        if not failed:
            return "nothing was evaluated"
        return self.infeasibility(failed[-1].assignment) or failed[-1].error

    def last(self) -> list[IntArray]:
        """The latest placement, if it is feasible."""
        return [one.assignment for one in self.history[-1:] if not one.error]
