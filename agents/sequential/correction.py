"""What measurements say about the costs of a schedule in which operators take turns.

There the latency of a placement is a sum: of the times of its units where they are, and of its
transfers. Each term is believed to be off by a factor of its own, by one of its device and by one
of its link, so that a few measurements tell something about all of them (Bayesian linear
regression).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.sequential.schedule import SERIAL, Schedule, estimate_all
from placement_gym.arrays import FloatArray, IntArray
from placement_gym.errors import UserError
from placement_gym.problem import Problem

LEAST, MOST = 0.2, 5.0
"""A factor that is believed lies between them."""


class Doubt(NamedTuple):
    """Standard deviations of what is believed before any measurement, as shares.

    Attributes:
        unit: Of a unit's time on a device.
        device: Of all times on a device.
        link: Of all transfers from one device to another.
        noise: Of a measurement.
    """

    unit: float = 0.3
    device: float = 0.3
    link: float = 0.5
    noise: float = 0.02


class Correction:
    """Corrects a schedule by what placements took.

    Args:
        problem: Its units and devices.
        schedule: With the costs that are believed at first.
        rng: Source of all random numbers.
        doubt: How far off they may be.

    Raises:
        UserError: Operators do not take turns in the schedule, so that latencies are no sums.
    """

    def __init__(
        self,
        problem: Problem,
        schedule: Schedule,
        rng: np.random.Generator,
        doubt: Doubt | None = None,
    ) -> None:
        if schedule.kind != SERIAL:
            raise UserError(
                "costs can be corrected only where devices take turns, as in measured environments "
                "and under schedule='serial': leave out correct=True"
            )
        doubt = doubt or Doubt()
        self.schedule, self.rng, self.noise = schedule, rng, doubt.noise
        n_units, n_devices = problem.n_units, len(problem.devices)
        self.unit_ms = np.zeros((n_units, n_devices))
        np.add.at(self.unit_ms, schedule.unit, schedule.ms)
        self.spread = np.repeat(
            [doubt.unit, doubt.device, doubt.link], [self.unit_ms.size, n_devices, n_devices**2]
        )
        first = problem.single(problem.reference_device)
        self.reference_ms = float(estimate_all(schedule, first[None])[0])
        self.terms = np.empty((0, len(self.spread)))
        self.expected_ms, self.latencies_ms = np.empty(0), np.empty(0)

    def add(self, placements: IntArray, speedups: FloatArray) -> None:
        """Take in what (k, n_units) feasible placements reached, as speed-ups."""
        terms = [self.split(placement) for placement in placements]
        self.terms = np.concatenate([self.terms, np.reshape(terms, (-1, len(self.spread)))])
        expected_ms = estimate_all(self.schedule, placements)
        self.expected_ms = np.concatenate([self.expected_ms, expected_ms])
        self.latencies_ms = np.concatenate([self.latencies_ms, self.reference_ms / speedups])

    def split(self, placement: IntArray) -> FloatArray:
        """(n_terms,) ms of (n_units,) devices by unit and device, by device, and by link."""
        n_devices = self.unit_ms.shape[1]
        taken = np.where(placement[:, None] == np.arange(n_devices), self.unit_ms, 0.0)
        moved = np.zeros((n_devices, n_devices))
        schedule = self.schedule
        there = np.repeat(placement[schedule.unit], np.diff(schedule.first))
        read = np.unique(np.stack([schedule.tensor, schedule.maker, there]), axis=1)
        tensor, maker, there = read
        here = placement[schedule.unit[maker]]
        np.add.at(moved, (here, there), schedule.transfer_ms[tensor, here, there])
        return np.concatenate([taken.ravel(), taken.sum(axis=0), moved.ravel()])

    def draw(self) -> Schedule:
        """The schedule with factors drawn from what is believed after all measurements."""
        noise_ms = self.noise * self.latencies_ms
        weighted = self.terms * self.spread
        covariance = weighted @ weighted.T + np.diag(noise_ms**2)
        drawn = self.rng.normal(size=len(self.spread)) * self.spread
        seen_ms = self.expected_ms + self.terms @ drawn
        seen_ms += self.rng.normal(size=len(noise_ms)) * noise_ms
        gained = np.linalg.solve(covariance, self.latencies_ms - seen_ms)
        return self.scale(drawn + self.spread * (weighted.T @ gained))

    def scale(self, factors: FloatArray) -> Schedule:
        """The schedule whose terms are (n_terms,) shares longer."""
        n_units, n_devices = self.unit_ms.shape
        unit, device, link = np.split(factors, np.cumsum([n_units * n_devices, n_devices]))
        times = np.clip(1.0 + unit.reshape(n_units, n_devices) + device, LEAST, MOST)
        links = np.clip(1.0 + link.reshape(n_devices, n_devices), LEAST, MOST)
        schedule = self.schedule
        return schedule._replace(
            ms=schedule.ms * times[schedule.unit],
            transfer_ms=schedule.transfer_ms * links,
        )
