"""Measurements that are remembered from one session to the next."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path

from placement_gym.arrays import IntArray
from placement_gym.backends.cached import CachedBackend
from placement_gym.backends.measured.conditions import (
    cache_folder,
    compute_digest,
    describe_conditions,
)
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.store import MeasurementStore
from placement_gym.backends.protocol import Measurement

METHOD = 2
"""Changes with what a measurement is or how it is kept, so that older ones are not read."""


def store_path() -> Path:
    """The file in which this machine keeps the measurements of all problems."""
    return cache_folder() / f"measurements-{METHOD}.sqlite"


class DiskCachedBackend(CachedBackend):
    """As ``CachedBackend``, with a file of this machine behind its memory.

    A measurement is kept with the reference beside it, and so is a placement that the engine
    refuses. What is doubtful is not, nor a failure that a better day may not show: a crash, a hang
    or an impossible latency is remembered for this session alone.

    Args:
        inner: The backend that measures; ``remeasure`` always reaches it.
    """

    def __init__(self, inner: MeasuringBackend) -> None:
        super().__init__(inner)
        self.session = inner.session
        conditions = describe_conditions(inner) | {"protocol": asdict(inner.protocol)}
        self.store = MeasurementStore(store_path(), compute_digest(conditions))

    def recall(self, assignment: IntArray) -> Measurement | None:
        """See ``CachedBackend.recall``."""
        known = super().recall(assignment)
        if known is None:
            known = self.store.load(compute_key(assignment))
            if known is not None:
                super().remember(assignment, known)
        return known

    def remember(self, assignment: IntArray, measurement: Measurement) -> None:
        """See ``CachedBackend.remember``."""
        super().remember(assignment, measurement)
        passing = assignment.tobytes() in self.session.failures
        if not measurement.doubt and not passing:
            self.store.save(compute_key(assignment), measurement)


def compute_key(assignment: IntArray) -> str:
    """Hex digits of an assignment's device indices, whatever their type and layout in memory."""
    return hashlib.sha256(assignment.astype("<i8").tobytes()).hexdigest()
