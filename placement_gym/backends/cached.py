"""A backend that remembers: a repeated placement is not measured again."""

from __future__ import annotations

from dataclasses import replace

from placement_gym.arrays import IntArray
from placement_gym.backends.protocol import Backend, Batch, Measurement
from placement_gym.backends.wrapper import BackendWrapper


class CachedBackend(BackendWrapper):
    """Answers a repeated placement from memory, together with the reference measured beside it.

    Failures are kept too: a backend does not report a transient one.

    Args:
        inner: The backend that evaluates; ``remeasure`` always reaches it.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.seen: dict[bytes, Measurement] = {}

    def evaluate(self, assignment: IntArray) -> Measurement:
        """See ``Backend.evaluate``; ``cached`` tells repeated placements."""
        if self.infeasibility(assignment):
            return self.inner.evaluate(assignment)
        return self.evaluate_ignoring_limits(assignment)

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        """See ``Backend.evaluate_batch``."""
        return Batch.of(self.evaluate, assignments)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        """See ``Backend.evaluate_ignoring_limits``."""
        key = assignment.tobytes()
        if key in self.seen:
            return replace(self.seen[key], cached=True, compile_s=0.0, measure_s=0.0)
        measurement = self.inner.evaluate_ignoring_limits(assignment)
        self.seen[key] = measurement
        return measurement
