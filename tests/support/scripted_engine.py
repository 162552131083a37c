"""An engine that answers by a script: measurements, failures, nothing to compile."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from fakes import diamond_problem

from placement_gym.backends import Measurement
from placement_gym.backends.measured import MeasuredBackend
from placement_gym.base import IntArray

Answer = Measurement | Exception | float
NO_ENGINE: Any = None
"""The engine of a backend that answers its questions itself."""


class ScriptedEngine(MeasuredBackend):
    """Gives the answers of a script in turn, and its last one for ever.

    Args:
        answers: A measurement; an exception; or a number, the reference's latency in ms beside a
            candidate of 5 ms, or beside itself.
        reference: What the check of the reference raises, if anything.
    """

    def __init__(self, answers: Sequence[Answer], reference: Exception | None = None) -> None:
        super().__init__(NO_ENGINE, diamond_problem())
        self.answers = deque(answers)
        self.reference = reference
        self.log: list[str] = []

    @property
    def reference_ms(self) -> float:
        return 10.0

    @property
    def tolerance(self) -> float:
        return 1e-4

    def measure_once(self, assignment: IntArray, rival: float = 0.0) -> Measurement:
        self.log.append("measure")
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Measurement):
            return answer
        latency_ms = 5.0 if (assignment != self.problem.reference_device).any() else answer
        return Measurement(latency_ms, answer, latency_ms, noise=0.02)

    def check_reference(self) -> None:
        self.log.append("check")
        if self.reference is not None:
            raise self.reference

    def restart(self) -> None:
        self.log.append("restart")

    @property
    def steady(self) -> list[bool]:
        return [True]

    @property
    def comparison_rules(self) -> list[str]:
        return []

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        return [self.measure_once(assignment) for assignment in assignments]

    def own_choice(self, plugin: str) -> IntArray:
        return np.zeros(self.problem.n_units, dtype=np.int64)

    def close(self) -> None:
        self.log.append("close")
