"""Equal budgets: a backend that counts every evaluated placement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from placement_gym.backends import CONTENDER_SHARE, Backend, BackendWrapper, Batch, Measurement
from placement_gym.base import BoolArray, IntArray, cpu_now_s, now_s
from placement_gym.envs import DevicePlacementEnv

INFEASIBLE = "infeasible"
N_FINALISTS = 3
"""Placements that are measured again. Hand-tuned, because the fastest of many noisy samples is
partly luck."""
OnEvaluation = Callable[[float | None], object]
"""Called after each evaluation with its speed-up, None if it was infeasible."""


class Evaluation(NamedTuple):
    """An evaluated placement, with its error or an empty string."""

    assignment: IntArray
    speedup: float
    error: str


class Report(NamedTuple):
    """The evaluations so far.

    Attributes:
        evaluations: Their number.
        infeasible: Those whose placement did not fit or run.
        repaired: Those whose placement did not fit as proposed and was repaired first.
        curve: (evaluations, seconds, best speed-up) at each improvement.
        best: The fastest placements, see ``BudgetedBackend.best``.
    """

    evaluations: int
    infeasible: int
    repaired: int
    curve: list[tuple[int, float, float]]
    best: list[IntArray]


class BudgetReached(Exception):  # noqa: N818  a signal, not an error
    """The agent has used its budget of evaluations."""


class BudgetedBackend(BackendWrapper):
    """Counts evaluations, repeated and cached ones included, and stops at the budget.

    Measurements of single devices and of finalists are not counted.

    Args:
        inner: The backend that evaluates.
        budget: Evaluations allowed; the next one raises ``BudgetReached``.
        on_evaluation: See ``OnEvaluation``.
    """

    def __init__(
        self, inner: Backend, budget: int, on_evaluation: OnEvaluation = lambda speedup: None
    ) -> None:
        super().__init__(inner)
        self.budget = budget
        self.on_evaluation = on_evaluation
        self.history: list[Evaluation] = []
        self.curve: list[tuple[int, float, float]] = []
        self.repaired: list[int] = []
        self.started, self.started_cpu_s = now_s(), cpu_now_s()

    @property
    def wall_s(self) -> float:
        """Seconds since the budget was given, without the compilation of kernels."""
        return round(now_s() - self.started, 3)

    @property
    def cpu_s(self) -> float:
        """Seconds of this process's time since then."""
        return cpu_now_s() - self.started_cpu_s

    @property
    def evaluations(self) -> int:
        return len(self.history)

    @property
    def n_infeasible(self) -> int:
        """Evaluations whose placement did not fit or run."""
        return sum(bool(evaluation.error) for evaluation in self.history)

    @contextmanager
    def count_evaluations(
        self, env: DevicePlacementEnv, repair: bool | None = None
    ) -> Iterator[None]:
        """Take the place of an environment's backend within a ``with`` statement.

        Args:
            env: Evaluates with the backend inside this one.
            repair: Takes the place of the environment's ``repair``; None leaves it.
        """
        earlier = env.backend, env.repair, env.on_repair
        env.backend, env.on_repair = self, self.note_repairs
        env.repair = env.repair if repair is None else repair
        try:
            yield
        finally:
            env.backend, env.repair, env.on_repair = earlier

    def note_repairs(self, is_repaired: BoolArray) -> None:
        """Record which of the next evaluated placements were repaired."""
        evaluated = [index for index in self.repaired if index < self.evaluations]
        # Those beyond a budget were noted before the batch was cut, and others take their place.
        self.repaired = evaluated + (self.evaluations + np.flatnonzero(is_repaired)).tolist()

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
        # A batch that exceeds the budget is cut, so that an agent that evaluates in large batches
        # has as many evaluations as one that goes one by one.
        affordable = assignments[: self.budget - self.evaluations]
        batch = self.inner.evaluate_batch(affordable)
        for assignment, speedup, feasible in zip(affordable, *batch, strict=True):
            self.record(assignment, float(speedup), "" if feasible else INFEASIBLE)
        if len(affordable) < len(assignments):
            self.check_budget()
        return batch

    def check_budget(self) -> None:
        if self.evaluations >= self.budget:
            raise BudgetReached(f"{self.budget} evaluations")

    def record(self, assignment: IntArray, speedup: float, error: str) -> None:
        """Add an evaluation to the history and the curve (evaluations, seconds, best speed-up)."""
        self.history.append(Evaluation(assignment.copy(), speedup, error))
        incumbent = self.curve[-1][2] if self.curve else 0.0
        if not error and speedup > incumbent:
            self.curve.append((self.evaluations, self.wall_s, speedup))
        self.on_evaluation(None if error else speedup)

    def report(self) -> Report:
        """The evaluations so far."""
        best = self.best(N_FINALISTS)
        repaired = sum(index < self.evaluations for index in self.repaired)
        return Report(self.evaluations, self.n_infeasible, repaired, list(self.curve), best)

    def best(self, n: int) -> list[IntArray]:
        """The ``n`` fastest distinct feasible placements of the history.

        Placements slower than ``CONTENDER_SHARE`` of the fastest are omitted.
        """
        feasible = [evaluation for evaluation in self.history if not evaluation.error]
        by_speedup = sorted(feasible, key=lambda evaluation: -evaluation.speedup)
        # By assignment: repeats of one placement must not fill the places of finalists.
        unique = {
            evaluation.assignment.tobytes(): evaluation.assignment
            for evaluation in by_speedup
            if evaluation.speedup >= CONTENDER_SHARE * by_speedup[0].speedup
        }
        return list(unique.values())[:n]

    def explain_failure(self) -> str:
        """Describe the latest failure, the reason why there is no finalist."""
        failures = [evaluation for evaluation in self.history if evaluation.error]
        if not failures:
            return "nothing was evaluated"
        # A batch records only that a placement was infeasible: the reason is computed now.
        return self.infeasibility(failures[-1].assignment) or failures[-1].error

    def last(self) -> list[IntArray]:
        """The latest placement, if it is feasible."""
        return [latest.assignment for latest in self.history[-1:] if not latest.error]
