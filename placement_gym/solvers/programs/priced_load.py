"""Lower bounds on the load of a pipeline: prices of units at which no devices hold them all.

Below a load each device runs only certain sets of units. If units can be priced so that all devices
together, each with the costliest subset that it can run, hold less than all units are worth, no
placement has that load. Equal devices count once, however many there are.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import BoolArray, FloatArray, IntArray
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.highs import Solver
from placement_gym.solvers.kinds import interchangeable_devices
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.programs.grouped_load import add_borders
from placement_gym.solvers.solution import ROUNDING, TOLERANCE
from placement_gym.solvers.tasks import Tasks

MARGIN = 1e-6
"""A load is refuted if devices lack at least this share of the worth of all units."""
TOTAL_WORTH = 2.0**14
"""Worth of all units in the unit of the solver."""
GAP = 1e-4
"""Relative gap at which the search for a subset ends: ours."""
CENTRE_WEIGHT = 0.7
"""Weight of the best prices so far in the next ones: ours, as the program's own jump about."""


def priced_load(
    problem: Problem,
    costs: CostTable,
    time_limit_s: float,
    lower_ms: float,
    upper_ms: float = np.inf,
) -> float:
    """Raise a bound on the maximum load of every placement, contiguous or not, by bisection.

    Args:
        problem: Units, devices, support and memory limits.
        costs: Costs of the units' operators.
        time_limit_s: Wall-clock limit.
        lower_ms: A bound, which remains if it is zero.
        upper_ms: A load that some placement reaches; the bound does not exceed it.
    """
    end = perf_counter() + time_limit_s
    refuter = Refuter(problem, costs)
    upper_ms = min(upper_ms, refuter.largest_ms)
    while 0.0 < lower_ms * (1.0 + TOLERANCE) < upper_ms:
        left_s = end - perf_counter()
        if left_s <= 0.0:
            break
        middle_ms = min((lower_ms + upper_ms) / 2, 2 * lower_ms)
        if refuter.refute(middle_ms, perf_counter() + left_s / 2):
            lower_ms = middle_ms
        else:
            upper_ms = middle_ms
    return lower_ms


class Refuter:
    """Shows that no placement has a load; later loads begin with the sets and prices of earlier.

    Attributes:
        devices: One device of each kind.
        counts: (n_kinds,) number of devices.
        sets: Sets of units by kind, each with the load that it takes.
        prices: (n_units,) those that left most units over, which add up to 1.
        largest_ms: No placement has a larger load.
    """

    def __init__(self, problem: Problem, costs: CostTable) -> None:
        kinds = interchangeable_devices(problem, costs)
        self.problem, self.tasks = problem, Tasks.of_units(problem.units, costs)
        self.devices = [devices[0] for devices in kinds]
        self.counts = np.array([len(devices) for devices in kinds])
        self.border_ms = costs.boundary_ms[self.tasks.tensor]
        work_ms = np.where(problem.possible, self.tasks.ms, 0.0).max(axis=1)
        self.largest_ms = float(work_ms.sum() + self.border_ms.max(axis=1).sum())
        self.prices = normalize(work_ms if work_ms.any() else np.ones(problem.n_units))
        self.sets: list[dict[bytes, tuple[BoolArray, float]]] = [{} for _ in kinds]

    def refute(self, load_ms: float, end: float) -> bool:
        """Return whether prices found in time show that no placement has a load.

        Where units could be divided among the sets, there are none.
        """
        costliest = [
            CostliestSubset(self.problem, self.tasks, self.border_ms[:, device], device, load_ms)
            for device in self.devices
        ]
        program = PriceProgram(self.counts, len(self.prices))
        for kind, sets_of_kind in enumerate(self.sets):
            for units, needed_ms in sets_of_kind.values():
                if needed_ms <= load_ms:
                    program.add(kind, units)
        least, centre = np.inf, CENTRE_WEIGHT
        while perf_counter() < end:
            share, latest = program.solve(end)
            if share >= 1.0 - ROUNDING:
                return False
            prices = normalize(centre * self.prices + (1.0 - centre) * latest)
            answers = [subset.find(prices, end) for subset in costliest]
            total = float(self.counts @ [answer.share for answer in answers])
            if total < least:
                least, self.prices = total, prices
            if total < 1.0 - MARGIN:
                return True
            new = [
                self.learn(
                    program, kind, answer.units, min(costliest[kind].load_ms(answer.units), load_ms)
                )
                for kind, answer in enumerate(answers)
                if answer.units is not None
            ]
            if not any(new) and centre == 0.0:
                return False
            centre = CENTRE_WEIGHT if any(new) else 0.0
        return False

    def learn(self, program: PriceProgram, kind: int, units: BoolArray, load_ms: float) -> bool:
        """Add a set of units that a kind can run, with its load; whether it is new."""
        key = units.tobytes()
        if key in self.sets[kind]:
            return False
        self.sets[kind][key] = units, load_ms
        program.add(kind, units)
        return True


class Costliest(NamedTuple):
    """Result at some prices.

    Attributes:
        share: No set of units is worth a larger share of all.
        units: (n_units,) bool, a set that may be worth so much; None if none was found in time.
    """

    share: float
    units: BoolArray | None


class CostliestSubset:
    """Finds the set of units, at most ``most_ms`` on a device, that is worth most.

    Args:
        problem: Units, devices, support and memory limits.
        tasks: The units.
        border_ms: (n_tensors,) what each tensor costs that crosses the border of the set.
        device: The device.
        most_ms: The load that the device may have, borders included.
    """

    def __init__(
        self, problem: Problem, tasks: Tasks, border_ms: FloatArray, device: int, most_ms: float
    ) -> None:
        self.ms, self.border_ms, self.tasks = tasks.ms[:, device], border_ms, tasks
        n, most_ms = problem.n_units, most_ms * (1.0 + ROUNDING)
        possible = problem.possible[:, device] & (self.ms <= most_ms)
        program = Linear(about_ms=most_ms)
        self.inside = program.variables(n, upper=possible, whole=True)
        self.outside = program.variables(n)
        program.require((self.inside, 1.0), (self.outside, 1.0), rows=n, low=1.0, high=1.0)
        load = program.variables(1, upper=most_ms, in_ms=True)
        work = self.inside[None], np.where(possible, self.ms, 0.0)
        crosses = add_borders(program, self.inside[:, None], tasks, border_ms[:, None])
        program.require(work, (crosses.T, border_ms), (load, -1.0), rows=1)
        limit, scale = problem.limits_bytes[device], max(problem.unit_bytes.max(), 1.0)
        if limit < problem.unit_bytes.sum():
            weights = self.inside[None], problem.unit_bytes / scale
            program.require(weights, rows=1, high=limit / scale)
        self.solver = Solver(program, program.first_unit_ms)
        self.solver.limit(GAP, None)

    def find(self, prices: FloatArray, end: float) -> Costliest:
        """The costliest subset at (n_units,) prices that add up to 1, as far as time permits."""
        self.solver.highs.changeColsCost(
            len(prices), self.outside.astype(np.int32), prices * TOTAL_WORTH
        )
        result = self.solver.run(max(end - perf_counter(), 0.0))
        if result.values is None:
            return Costliest(1.0, None)
        share = 1.0 - result.bound / (TOTAL_WORTH * self.solver.unit_ms)
        return Costliest(share, result.values[self.inside] > 0.5)

    def load_ms(self, units: BoolArray) -> float:
        """The load of a set."""
        tensor, maker, reader = self.tasks.readings
        apart = units[maker] != units[reader]
        return float(self.ms[units].sum() + self.border_ms[np.unique(tensor[apart])].sum())


class PriceProgram:
    """The prices at which sets of units are worth least, each kind as often as it has devices."""

    def __init__(self, counts: IntArray, n_units: int) -> None:
        self.program = Linear()
        self.price = self.program.variables(n_units)
        self.costliest = self.program.variables(len(counts), cost=counts)
        self.program.require((self.price[None], 1.0), rows=1, low=1.0, high=1.0)
        self.solver = Solver(self.program, 1.0)

    def add(self, kind: int, units: BoolArray) -> None:
        """Let the costliest subset of a kind be worth at least these units."""
        terms = (self.costliest[[kind]], 1.0), (self.price[units], -1.0)
        self.program.require(*terms, rows=1, low=0.0, high=np.inf)

    def solve(self, end: float) -> tuple[float, FloatArray]:
        """Return the share of all units' worth that all devices hold, and (n_units,) prices."""
        self.solver.pass_new_rows()
        result = self.solver.run(max(end - perf_counter(), 0.0))
        if result.values is None:
            return np.inf, np.empty(0)
        return result.objective, normalize(np.maximum(result.values[self.price], 0.0))


def normalize(prices: FloatArray) -> FloatArray:
    """Prices that add up to 1."""
    prices = prices / prices.max()
    return prices / prices.sum()
