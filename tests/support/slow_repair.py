# White-box tests of solvers
"""Repair in plain Python, every regret computed anew at every step."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.problem import Problem
from placement_gym.solvers import RepairPrices
from placement_gym.solvers.repair_kernel import RUN_SHARE


class SlowRepair:
    """Repairs one placement at a time.

    Args:
        problem: Units, devices, support and limits.
        prices: Times and transfers.
    """

    def __init__(self, problem: Problem, prices: RepairPrices) -> None:
        self.problem, self.prices = problem, prices
        self.size, self.limit = problem.unit_bytes, problem.limits_bytes
        self.ms = np.where(problem.supported, prices.unit_ms, np.inf)

    def __call__(self, assignment: IntArray, keep: BoolArray | None = None) -> IntArray:
        keep = np.zeros(len(assignment), dtype=bool) if keep is None else keep
        place = self.support(assignment)
        for free in (~keep, np.ones_like(keep)):
            while (step := self.move_first(place, free & (self.size > 0))) is not None:
                place = step
        if not self.overload(place):
            return place
        again = self.refill(place)
        again = again if (again == place).all() else self(again, keep)
        return again if self.overload(again) < self.overload(place) else place

    def room(self, place: IntArray) -> FloatArray:
        """(n_devices,) bytes that are left."""
        return self.free(np.bincount(place, self.size, len(self.limit)))

    def free(self, used: FloatArray) -> FloatArray:
        """(n_devices,) bytes that are left; those of a pool to each of its devices."""
        return self.limit - used @ self.problem.memory.shared

    def overload(self, place: IntArray) -> float:
        """Bytes beyond the limits, those of a pool once."""
        one_each = np.unique(self.problem.memory.of_device, return_index=True)[1]
        return float(-np.minimum(self.room(place)[one_each], 0.0).sum())

    def support(self, assignment: IntArray) -> IntArray:
        """Move units that are not supported where they are, in order."""
        place = assignment.copy()
        lost = ~self.problem.supported[np.arange(len(place)), place]
        settled = ~lost
        for unit in np.flatnonzero(lost):
            held = np.bincount(place[settled], self.size[settled], len(self.limit))
            place[unit] = self.choose_device(int(unit), self.free(held))
            settled[unit] = True
        return place

    def choose_device(self, unit: int, room: FloatArray) -> int:
        """The cheapest device with room, or else the one with the most room."""
        devices = np.flatnonzero(self.problem.supported[unit]).tolist()
        fits = [d for d in devices if self.size[unit] <= room[d]]
        if fits:
            return min(fits, key=lambda d: self.ms[unit, d])
        return max(devices, key=lambda d: room[d])

    def refill(self, place: IntArray) -> IntArray:
        """Place all units anew, largest first."""
        place, room = place.copy(), self.limit.copy()
        for unit in np.argsort(-self.size, kind="stable").tolist():
            if self.size[unit] and self.size[unit] > room[place[unit]]:
                place[unit] = self.choose_device(unit, room)
            room[self.problem.memory.shared[place[unit]]] -= self.size[unit]
        return place

    def move_first(self, place: IntArray, leaving: BoolArray) -> IntArray | None:
        """Move everything up to the moment at which a run may move again; None if nothing can."""
        units, runs = self.rank_units(place, leaving), self.rank_runs(place, leaving)
        if not units:
            return None
        if not runs or min(units)[0] < min(runs)[0]:
            return self.move_units(place, leaving)
        _, _, begin, end, device = min(runs)
        place = place.copy()
        place[begin:end] = device
        return place

    def move_units(self, place: IntArray, leaving: BoolArray) -> IntArray:
        """Move the cheapest unit until a device fits that did not."""
        while units := self.rank_units(place, leaving):
            _, unit, device = min(units)
            before, place = place, place.copy()
            place[unit] = device
            if self.room(place)[before[unit]] >= 0:
                return place
        return place

    def rank_units(self, place: IntArray, leaving: BoolArray) -> list[tuple[float, int, int]]:
        """Rank, unit and best device of every unit that can leave a full device."""
        room, found = self.room(place), []
        for unit in np.flatnonzero(leaving & (room[place] < 0)).tolist():
            targets = [
                (self.regret(place, unit, unit + 1, d), d)
                for d in range(len(room))
                if d != place[unit] and self.size[unit] <= room[d]
            ]
            if targets and min(targets)[0] < np.inf:
                regret, device = min(targets)
                found.append((rank(regret, self.size[unit]), unit, device))
        return found

    def rank_runs(
        self, place: IntArray, leaving: BoolArray
    ) -> list[tuple[float, int, int, int, int]]:
        """Rank, number, first unit, unit after the last, and device of runs that may move."""
        room, found, number = self.room(place), [], 0
        edges = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), len(place)]
        for begin, end in pairwise(edges):
            excess = -room[place[begin]]
            if excess <= 0 or end - begin < 2:
                continue
            heads = [i for i in range(begin, end + 1) if self.size[begin:i].sum() >= excess]
            tails = [i for i in range(end, begin - 1, -1) if self.size[i:end].sum() >= excess]
            whole = [(begin, end)] if self.size[begin:end].sum() <= excess else []
            parts = [*whole, (begin, min(heads, default=end))]
            parts += [(max(tails, default=begin), end)]
            for (i, j), d in product(parts, range(len(room))):
                held, number = self.size[i:j].sum(), number + 1
                stays = (self.size[i:j] > 0) & ~leaving[i:j]
                moves = d != place[begin] and 0 < held <= room[d] and held >= RUN_SHARE * excess
                if moves and not stays.any() and self.regret(place, i, j, d) < np.inf:
                    found.append((rank(self.regret(place, i, j, d), held), number, i, j, d))
        return found

    def regret(self, place: IntArray, begin: int, end: int, device: int) -> float:
        """Price and transfers after a move, less those before."""
        moved = place.copy()
        moved[begin:end] = device
        return self.total(moved) - self.total(place)

    def total(self, place: IntArray) -> float:
        """Sum of times and links."""
        own = np.repeat(np.arange(len(place)), np.diff(self.prices.first))
        ends = place[own], place[self.prices.other]
        links = self.prices.link_ms[(np.arange(len(own)), *ends)].sum() / 2
        return float(self.ms[np.arange(len(place)), place].sum() + links)


def rank(regret: float, size: float) -> float:
    return regret / size if regret > 0 else regret * size
