"""Wrappers of backends, as the cache that measures no placement twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from placement_gym.backends.protocol import Backend, Batch, Measurement
from placement_gym.base import FloatArray, IntArray

if TYPE_CHECKING:
    from placement_gym.problem.costs import CostTable


class BackendWrapper:
    """Forwards every call of a ``Backend`` to ``inner``; subclasses override some of them."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.problem = inner.problem

    @property
    def objective(self) -> str:
        return self.inner.objective

    @property
    def limits_weights(self) -> bool:
        return self.inner.limits_weights

    @property
    def rough_costs(self) -> CostTable | None:
        return self.inner.rough_costs

    def evaluate(self, assignment: IntArray) -> Measurement:
        return self.inner.evaluate(assignment)

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        return self.inner.evaluate_batch(assignments)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        return self.inner.evaluate_ignoring_limits(assignment)

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        return self.inner.remeasure(assignments)

    def infeasibility(self, assignment: IntArray) -> str:
        return self.inner.infeasibility(assignment)

    def excess_shares(self, assignments: IntArray) -> FloatArray:
        return self.inner.excess_shares(assignments)

    def start_ms(self, assignment: IntArray) -> FloatArray:
        return self.inner.start_ms(assignment)

    def cost_table(self) -> CostTable:
        return self.inner.cost_table()

    def own_choice(self, plugin: str) -> IntArray:
        return self.inner.own_choice(plugin)

    def close(self) -> None:
        self.inner.close()


class CachedBackend(BackendWrapper):
    """Returns the earlier measurement of a repeated placement, failures included.

    Args:
        inner: Evaluates new placements, and every one in ``remeasure``.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.seen: dict[bytes, Measurement] = {}

    def evaluate(self, assignment: IntArray) -> Measurement:
        """See ``Backend.evaluate``; ``cached`` marks repeated placements."""
        if self.infeasibility(assignment):
            return self.inner.evaluate(assignment)
        return self.evaluate_ignoring_limits(assignment)

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        return Batch.evaluate(self.evaluate, assignments)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        cached = self.seen.get(assignment.tobytes())
        if cached is not None:
            return replace(cached, cached=True, compile_s=0.0, measure_s=0.0)
        measurement = self.inner.evaluate_ignoring_limits(assignment)
        self.seen[assignment.tobytes()] = measurement
        return measurement
