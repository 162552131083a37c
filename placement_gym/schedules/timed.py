"""The interface of schedules in which devices work at the same time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.base.arrays import FloatArray, UInt8

if TYPE_CHECKING:
    from placement_gym.schedules.simulator import Simulator


class TimedSchedule(ABC):
    """Times of operators under one of ``Semantics.schedule``; ``simulator.TIMED`` lists all.

    Args:
        simulator: Its semantics and arrays.
    """

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator

    @abstractmethod
    def schedule(self, placement: UInt8) -> tuple[float, FloatArray, FloatArray]:
        """See ``Simulator.schedule``."""

    def latency_ms(self, placement: UInt8) -> float:
        """See ``Simulator.latency_ms``."""
        return self.schedule(placement)[0]

    def latencies_ms(self, placements: UInt8) -> FloatArray:
        """See ``Simulator.latencies_ms``."""
        return np.array([self.latency_ms(placement) for placement in placements])
