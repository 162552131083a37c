"""Equal budgets: every evaluated placement counts, whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from placement_gym.backends import Backend, Measurement
from placement_gym.backends.wrapper import BackendWrapper
from placement_gym.graph.operators import IntArray


class BudgetReached(Exception):  # noqa: N818  a signal, not an error
    """The agent has evaluated as many placements as it may."""


class BudgetedBackend(BackendWrapper):
    """Counts evaluations, repeated and cached ones included, and ends at the budget.

    What the environment asks about single devices and the harness about finalists is not counted.

    Args:
        inner: Does the work.
        budget: Evaluations allowed; the next one raises ``BudgetReached``.
        on_evaluation: Called after each.
    """

    def __init__(
        self, inner: Backend, budget: int, on_evaluation: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(inner)
        self.budget: float = budget
        self.on_evaluation = on_evaluation
        self.history: list[tuple[IntArray, Measurement]] = []
        self.curve: list[tuple[int, float, float]] = []
        self.started = perf_counter()

    @property
    def wall_s(self) -> float:
        """Seconds since the budget was given."""
        return round(perf_counter() - self.started, 3)

    @property
    def evaluations(self) -> int:
        return len(self.history)

    def evaluate(self, assignment: IntArray) -> Measurement:
        """See ``Backend.evaluate``.

        Raises:
            BudgetReached: The budget is spent.
        """
        if self.evaluations >= self.budget:
            raise BudgetReached(f"{self.budget} evaluations")
        measurement = self.inner.evaluate(assignment)
        self.history.append((assignment.copy(), measurement))
        self.note_progress(measurement)
        self.on_evaluation()
        return measurement

    def note_progress(self, measurement: Measurement) -> None:
        """Keep (evaluations, seconds, best speed-up) whenever the best improves."""
        best = self.curve[-1][2] if self.curve else 0.0
        if measurement.feasible and measurement.speedup > best:
            self.curve.append((self.evaluations, self.wall_s, measurement.speedup))

    def best(self, n: int) -> list[IntArray]:
        """The ``n`` fastest distinct feasible placements that were seen."""
        feasible = [(a, m) for a, m in self.history if m.feasible]
        ranked = sorted(feasible, key=lambda seen: -seen[1].speedup)
        distinct = {a.tobytes(): a for a, _ in ranked}
        return list(distinct.values())[:n]

    def why_not(self) -> str:
        """Why there is no finalist: the latest failure."""
        reasons = [measurement.error for _, measurement in self.history if measurement.error]
        return reasons[-1] if reasons else "nothing was evaluated"

    def last(self) -> list[IntArray]:
        """The latest placement, if it is feasible."""
        return [assignment for assignment, m in self.history[-1:] if m.feasible]
