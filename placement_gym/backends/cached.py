"""A backend that remembers: a repeated placement is not measured again."""

from __future__ import annotations

from dataclasses import replace

from placement_gym.backends.protocol import Backend, Batch, Measurement
from placement_gym.backends.wrapper import BackendWrapper
from placement_gym.base.arrays import IntArray


class CachedBackend(BackendWrapper):
    """Answers a repeated placement from memory, together with the reference measured alongside.

    Failures are kept too: a backend does not report a transient one.

    Args:
        inner: The backend that evaluates; ``remeasure`` always reaches it.
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
        """See ``Backend.evaluate_batch``."""
        return Batch.of(self.evaluate, assignments)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        """See ``Backend.evaluate_ignoring_limits``."""
        known = self.recall(assignment)
        if known is not None:
            return replace(known, cached=True, compile_s=0.0, measure_s=0.0)
        return self.evaluate_anew(assignment)

    def evaluate_anew(self, assignment: IntArray) -> Measurement:
        """As ``evaluate_ignoring_limits``, but never from memory; the new measurement is kept."""
        measurement = self.inner.evaluate_ignoring_limits(assignment)
        self.remember(assignment, measurement)
        return measurement

    def recall(self, assignment: IntArray) -> Measurement | None:
        """Return what is remembered of an assignment, limits ignored."""
        return self.seen.get(assignment.tobytes())

    def remember(self, assignment: IntArray, measurement: Measurement) -> None:
        """Keep the measurement of an assignment."""
        self.seen[assignment.tobytes()] = measurement
