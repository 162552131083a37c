"""Equal budgets: a backend that counts every evaluated placement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from placement_gym.backends import CONTENDER_SHARE, Backend, BackendWrapper, Batch, Measurement
from placement_gym.base import BoolArray, IntArray, cpu_now_s, now_s
from placement_gym.envs import DevicePlacementEnv

INFEASIBLE = "infeasible"
N_FINALISTS = 3
"""Placements that are measured again: the fastest of many noisy samples is partly luck.
Hand-tuned."""
OnEvaluation = Callable[[float | None], object]
"""Called after each evaluation with its speed-up, None if it was infeasible."""


class Evaluation(NamedTuple):
    """An evaluated placement, its error or an empty string, and whether others disturbed it."""

    assignment: IntArray
    speedup: float
    error: str
    disturbed: bool


class BudgetReached(Exception):  # noqa: N818  a signal, not an error
    """The agent has used its budget of evaluations."""


class BudgetedBackend(BackendWrapper):
    """Counts evaluations, repeated and cached ones included; raises ``BudgetReached`` beyond.

    Measurements of single devices and of finalists are not counted.
    """

    def __init__(
        self, inner: Backend, budget: int, on_evaluation: OnEvaluation = lambda speedup: None
    ) -> None:
        super().__init__(inner)
        self.budget = budget
        self.on_evaluation = on_evaluation
        self.history: list[Evaluation] = []
        self.curve: list[tuple[int, float, float]] = []  # evaluations, seconds, best speed-up
        self.repaired: list[int] = []
        self.started, self.started_cpu_s = now_s(), cpu_now_s()

    @property
    def wall_s(self) -> float:
        """Seconds since it was made, without the compilation of kernels."""
        return round(now_s() - self.started, 3)

    @property
    def cpu_s(self) -> float:
        return cpu_now_s() - self.started_cpu_s

    @property
    def evaluations(self) -> int:
        return len(self.history)

    @contextmanager
    def count_evaluations(
        self, env: DevicePlacementEnv, repair: bool | None = None
    ) -> Iterator[None]:
        """Replace an environment's backend by this one, and its ``repair`` unless None."""
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
        # Others take the place of those that a batch cut at the budget did not evaluate.
        self.repaired = evaluated + (self.evaluations + np.flatnonzero(is_repaired)).tolist()

    def evaluate(self, assignment: IntArray) -> Measurement:
        self.check_budget()
        found = self.inner.evaluate(assignment)
        self.record(assignment, found.speedup, found.error, found.interference > 0.0)
        return found

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        """Evaluate as much of a batch as the budget allows; ``BudgetReached`` if it is not all."""
        self.check_budget()
        affordable = assignments[: self.budget - self.evaluations]
        batch = self.inner.evaluate_batch(affordable)
        for assignment, speedup, feasible, disturbed in zip(affordable, *batch, strict=True):
            error = "" if feasible else INFEASIBLE
            self.record(assignment, float(speedup), error, bool(disturbed))
        if len(affordable) < len(assignments):
            self.check_budget()
        return batch

    def check_budget(self) -> None:
        if self.evaluations >= self.budget:
            raise BudgetReached(f"{self.budget} evaluations")

    def record(
        self, assignment: IntArray, speedup: float, error: str, disturbed: bool = False
    ) -> None:
        self.history.append(Evaluation(assignment.copy(), speedup, error, disturbed))
        incumbent = self.curve[-1][2] if self.curve else 0.0
        if not error and speedup > incumbent:
            self.curve.append((self.evaluations, self.wall_s, speedup))
        self.on_evaluation(None if error else speedup)

    def describe(self, n_first: int) -> dict[str, Any]:
        """The fields of a row on its first evaluations, and the time until now."""
        first = self.history[:n_first]
        return {
            "evaluations": n_first,
            "infeasible": sum(bool(evaluation.error) for evaluation in first),
            "repaired": sum(index < n_first for index in self.repaired),
            "disturbed": sum(evaluation.disturbed for evaluation in first),
            "curve": [point for point in self.curve if point[0] <= n_first],
            "wall_s": self.wall_s,
            "cpu_s": round(self.cpu_s, 3),
        }

    def best(self, n: int, n_first: int | None = None) -> list[IntArray]:
        """The ``n`` fastest feasible contenders of the first evaluations, or of all."""
        feasible = [evaluation for evaluation in self.history[:n_first] if not evaluation.error]
        by_speedup = sorted(feasible, key=lambda evaluation: -evaluation.speedup)
        unique = {
            evaluation.assignment.tobytes(): evaluation.assignment
            for evaluation in by_speedup
            if evaluation.speedup >= CONTENDER_SHARE * by_speedup[0].speedup
        }
        return list(unique.values())[:n]

    def explain_failure(self) -> str:
        """Explain why there is no finalist."""
        failures = [evaluation for evaluation in self.history if evaluation.error]
        if not failures:
            return "nothing was evaluated"
        # A batch records no reasons.
        return self.infeasibility(failures[-1].assignment) or failures[-1].error

    def last(self) -> list[IntArray]:
        """The latest placement, if it is feasible."""
        return [latest.assignment for latest in self.history[-1:] if not latest.error]
