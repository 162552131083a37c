"""A search that places task after task in the partial placements with the lowest bounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import FloatArray, IntArray, now_s
from placement_gym.solvers.beams.expansion import (
    CODED_DEVICES,
    MAX_SLOTS,
    Layer,
    expand,
    merge_alike,
)
from placement_gym.solvers.beams.frontier import Frontier
from placement_gym.solvers.beams.potentials import Potentials, find_tails

MAX_STATES = 100_000
"""Assignments of devices to live tasks in one table of potentials, at most: ours, for memory."""


class BackStep(NamedTuple):
    """Leads back from partial placements to those without the last task.

    Attributes:
        parent: (k,) number in the previous layer.
        device: (k,) of the last task.
    """

    parent: NDArray[np.int32]
    device: NDArray[np.int8]


class BeamResult(NamedTuple):
    """Result of a search.

    Attributes:
        least_ms: Cost of the best complete placement; infinite if there is none.
        devices: (n,) device of each step in it; None if there is none.
        dropped_ms: No placement that was dropped costs less.
    """

    least_ms: float
    devices: IntArray | None
    dropped_ms: float


@dataclass(frozen=True, eq=False)
class Grower:
    """Searches the placements of the tasks of a frontier.

    Attributes:
        frontier: The steps.
        potentials: Bounds of completions.
        limits_bytes: (n_devices,) bytes that fit.
        alike: (n_devices,) the previous device of equal properties, or -1.
        ordered: Whether a device runs tasks in the order of steps.
        slack: Partial placements are merged if none of the times and bytes of one exceeds the
            other's by more than this share of ``about_ms`` or of the limit. This lowers bounds a
            little; zero keeps them.
        about_ms: About the latency.
    """

    frontier: Frontier
    potentials: Potentials
    limits_bytes: FloatArray
    alike: IntArray
    ordered: bool
    slack: float = 0.0
    about_ms: float = 0.0

    def search(self, width: int, upper_ms: float, end: float) -> BeamResult:
        """Search once, keeping ``width`` partial placements of each length."""
        layer, dropped_ms, steps = Layer.empty(len(self.tolerances)), upper_ms, list[BackStep]()
        for k in range(len(self.frontier.order)):
            # A search that stops here has dropped everything that is left: its bound is theirs.
            if now_s() > end:
                return BeamResult(np.inf, None, min(dropped_ms, float(layer.bound.min())))
            layer, least_ms = self.advance(k, layer, width, upper_ms)
            dropped_ms = min(dropped_ms, least_ms)
            if not len(layer.code):
                return BeamResult(np.inf, None, dropped_ms)
            steps.append(BackStep(layer.parent, layer.device))
        best = int(layer.bound.argmin())
        return BeamResult(float(layer.bound[best]), read_devices(steps, best), dropped_ms)

    def advance(self, k: int, layer: Layer, width: int, upper_ms: float) -> tuple[Layer, float]:
        """Place one more task; returns the best partial placements and the lowest bound dropped."""
        count, grown = expand(
            self.frontier,
            self.potentials,
            self.tail,
            self.alike,
            self.limits_bytes,
            self.ordered,
            k,
            layer,
            upper_ms,
        )
        layer = grown.take(slice(count))
        by_code = np.lexsort((layer.bound, layer.code))
        memory, n_times = self.potentials.memory, self.n_times
        rows = np.flatnonzero(
            merge_alike(layer, by_code, self.compared, self.tolerances, memory, n_times)
        )
        if len(rows) <= width:
            return layer.take(rows), np.inf
        rows = rows[np.argsort(layer.bound[rows], kind="stable")]
        return layer.take(rows[:width]), float(layer.bound[rows[width]])

    @property
    def n_devices(self) -> int:
        return len(self.alike)

    @property
    def n_times(self) -> int:
        """Number of finishes of slots, and of times when devices are free."""
        return self.tail.shape[1] + self.n_devices

    @cached_property
    def tail(self) -> FloatArray:
        return find_tails(self.frontier)

    @cached_property
    def tolerances(self) -> FloatArray:
        """(n_values,) difference in each value that merging ignores."""
        n_sets, _, n_cuts = self.potentials.cuts.weight.shape
        limits = np.where(np.isfinite(self.limits_bytes), self.limits_bytes, 0.0)
        times = np.full(self.n_times, self.about_ms)
        derived = np.zeros(n_cuts + n_sets)
        return self.slack * np.concatenate([times, limits, [self.about_ms], derived])

    @cached_property
    def compared(self) -> IntArray:
        """Columns of values in which a larger number is worse."""
        limited = self.n_times + np.flatnonzero(np.isfinite(self.limits_bytes))
        return np.concatenate([np.arange(self.n_times), limited, [self.n_times + self.n_devices]])


def is_narrow(frontier: Frontier, n_devices: int) -> bool:
    """True if few enough tasks are live at a time, on few enough devices, to be searched."""
    most = int(np.diff(frontier.first_live).max())
    fits = frontier.n_slots <= MAX_SLOTS and n_devices <= CODED_DEVICES
    return fits and n_devices**most <= MAX_STATES


def read_devices(steps: list[BackStep], best: int) -> IntArray:
    """(n,) devices of a complete placement, by its number in the last layer."""
    devices: list[int] = []
    for parent, device in reversed(steps):
        devices.append(int(device[best]))
        best = int(parent[best])
    return np.array(devices[::-1])
