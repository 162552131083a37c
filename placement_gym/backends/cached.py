"""A backend that remembers: a repeated placement is not measured again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from placement_gym.backends import Backend, Measurement
from placement_gym.graph.operators import IntArray


class CachedBackend:
    """Answers a placement it has seen from memory, the reference of that time with it.

    Args:
        inner: Asked once for each placement; ``remeasure`` always reaches it.
    """

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.problem = inner.problem
        self.seen: dict[bytes, Measurement] = {}

    def evaluate(self, assignment: IntArray) -> Measurement:
        """See ``Backend.evaluate``; ``cached`` says where the answer came from."""
        if self.problem.infeasibility(assignment):
            return self.inner.evaluate(assignment)
        return self.score(assignment)

    def score(self, assignment: IntArray) -> Measurement:
        """As ``evaluate``, memory limits ignored."""
        key = assignment.tobytes()
        if key in self.seen:
            return replace(self.seen[key], cached=True, compile_s=0.0, measure_s=0.0)
        self.seen[key] = self.inner.score(assignment)
        return self.seen[key]

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """Afresh, whatever is remembered."""
        return self.inner.remeasure(assignments)

    def own_choice(self, plugin: str) -> IntArray:
        """See ``Backend.own_choice``."""
        return self.inner.own_choice(plugin)

    def close(self) -> None:
        """Close the inner backend."""
        self.inner.close()
