"""A list scheduler of one problem, whose actions are the weights of its scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from placement_gym.base import FloatArray, UInt8, UInt64, round_significant
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers import RepairPrices, merge_submodels, repair
from placement_gym.solvers.list_policy.kernel import (
    HOST,
    LASTING,
    NAMES,
    PRICE,
    SCARCE,
    STICK,
    STRENGTH,
    schedule_lists,
)
from placement_gym.solvers.list_policy.list_problem import ListProblem, is_exact

N_WEIGHTS = len(NAMES)
MEANS = np.array([-3.0, 0.0, 0.0, 0.0, 0.0, -1.0, -3.0, 0.0, 0.0])
SCALES = np.array([3.0, 0.5, 0.5, 0.3, 0.5, 2.0, 2.0, 0.5, 0.2])
"""Weights are these means, and so many of these scales as an action says. Price, strength and
lasting are then exponents of two."""
POWERS = [PRICE, STRENGTH, LASTING]
IN_MEAN_TIMES = [STICK, SCARCE, STRENGTH, HOST]
"""Weights that are multiples of the mean time of an operator."""
DIGITS = 6
"""Of a weight: networks and powers differ in their last bits between processors."""
SIMULATED = 3
"""Schedules that the simulator compares where times are estimates."""


class ListScheduler:
    """Makes many list schedules of one problem at once.

    Args:
        problem: Units, devices and limits.
        simulator: What a placement costs.

    Attributes:
        exact: Whether times of schedules are the simulator's latencies.
    """

    def __init__(self, problem: Problem, simulator: Simulator) -> None:
        self.problem, self.simulator = problem, simulator
        self.view = ListProblem.from_problem(problem, simulator)
        self.exact = is_exact(simulator) and problem.max_submodels is None

    def schedule(self, actions: FloatArray, rng: np.random.Generator) -> tuple[UInt8, FloatArray]:
        """Make a schedule for each action.

        Args:
            actions: (k, ``N_WEIGHTS``) in standard deviations, see ``MEANS``.
            rng: Source of tastes of devices.

        Returns:
            (k, n_units) devices, and (k,) times in ms, infinite where limits are exceeded.
        """
        weights = convert(actions, self.view.gain_ms, self.view.mean_ms)
        places = np.empty((len(actions), self.problem.n_units), np.uint8)
        costs_ms = np.empty(len(actions))
        seeds = draw_seeds(rng, len(actions))
        schedule_lists([self.view] * len(actions), weights, seeds, places, costs_ms)
        return places, costs_ms

    def evaluate(self, actions: FloatArray, rng: np.random.Generator) -> tuple[UInt8, FloatArray]:
        """As ``schedule``, with the simulator's latencies where times are estimates."""
        places, costs_ms = self.schedule(actions, rng)
        if not self.exact:
            fits = np.isfinite(costs_ms)
            costs_ms[fits] = self.simulator.latencies_ms(places[fits])
        return places, costs_ms

    def find_best(
        self, actions: FloatArray, rng: np.random.Generator, number: int = 1
    ) -> tuple[UInt8, FloatArray]:
        """Make schedules and return the best ones.

        Where their times are estimates, the best ``SIMULATED`` are simulated. Where no schedule
        keeps the limits, one is repaired.

        Args:
            actions: (k, ``N_WEIGHTS``), see ``schedule``.
            rng: Source of tastes of devices.
            number: How many to return at most.

        Returns:
            (m, n_units) devices, and (m,) costs in ms, ascending; infinite if a repair failed.
        """
        return self.choose(*self.schedule(actions, rng), number)

    def choose(
        self, places: UInt8, costs_ms: FloatArray, number: int = 1
    ) -> tuple[UInt8, FloatArray]:
        """The best of the schedules that ``schedule`` has made; see ``find_best``."""
        if not np.isfinite(costs_ms).any():
            return self.compare(self.repair(places[:SIMULATED]), number)
        order = np.argsort(costs_ms, kind="stable")
        order = order[np.isfinite(costs_ms[order])]
        if self.exact:
            return places[order[:number]], costs_ms[order[:number]]
        return self.compare(places[order[: max(SIMULATED, number)]], number)

    def compare(self, places: UInt8, number: int) -> tuple[UInt8, FloatArray]:
        """The best of (k, n_units) placements by the simulator, with few enough submodels."""
        if self.problem.max_submodels is not None:
            merged = [
                merge_submodels(self.problem, self.simulator, place.astype(np.int64))
                for place in places
            ]
            places = np.stack(merged).astype(np.uint8)
        costs_ms = np.array([cost_ms(self.problem, self.simulator, place) for place in places])
        order = np.argsort(costs_ms, kind="stable")[:number]
        return places[order], costs_ms[order]

    def repair(self, places: UInt8) -> UInt8:
        """Move units of (k, n_units) placements where limits are exceeded."""
        fitting = repair(self.problem, places.astype(np.int64), self.prices)
        return fitting.astype(np.uint8)

    @cached_property
    def prices(self) -> RepairPrices:
        """Costs that a repair minimises."""
        return RepairPrices.from_costs(self.problem, self.simulator.costs)


def find_best_of_each(
    schedulers: Sequence[ListScheduler],
    actions: FloatArray,
    rngs: Sequence[np.random.Generator],
) -> list[tuple[UInt8, float]]:
    """Return what ``find_best`` of each scheduler returns for its one action.

    Args:
        schedulers: (k,) their problems.
        actions: (k, ``N_WEIGHTS``), see ``ListScheduler.schedule``.
        rngs: (k,) sources of tastes.
    """
    views = [scheduler.view for scheduler in schedulers]
    gains_ms, means_ms = (
        np.array([getattr(view, name) for view in views]) for name in ("gain_ms", "mean_ms")
    )
    weights = convert(actions, gains_ms, means_ms[:, None])
    sizes = [scheduler.problem.n_units for scheduler in schedulers]
    places, costs_ms = np.empty((len(sizes), max(sizes)), np.uint8), np.empty(len(sizes))
    seeds = np.concatenate([draw_seeds(rng, 1) for rng in rngs])
    schedule_lists(views, weights, seeds, places, costs_ms)
    chosen = (
        scheduler.choose(places[k : k + 1, :size], costs_ms[k : k + 1])
        for k, (scheduler, size) in enumerate(zip(schedulers, sizes, strict=True))
    )
    return [(best[0], float(best_ms[0])) for best, best_ms in chosen]


def convert(
    actions: FloatArray, gains_ms: float | FloatArray, means_ms: float | FloatArray
) -> FloatArray:
    """The weights of ``schedule_lists``.

    Args:
        actions: (k, ``N_WEIGHTS``), see ``ListScheduler.schedule``.
        gains_ms: ``gain_ms`` of the problem, or (k,) of the problem of each.
        means_ms: ``mean_ms`` of the problem, or (k, 1).
    """
    weights: FloatArray = MEANS + SCALES * actions
    weights[:, LASTING] = np.minimum(weights[:, LASTING], 0.0)
    weights[:, POWERS] = np.exp2(weights[:, POWERS])
    weights[:, PRICE] *= gains_ms
    weights[:, IN_MEAN_TIMES] *= means_ms
    return round_significant(weights, DIGITS)


def draw_seeds(rng: np.random.Generator, number: int) -> UInt64:
    """(number,) seeds of tastes."""
    return rng.integers(2**64, size=number, dtype=np.uint64)


def draw_actions(rng: np.random.Generator, number: int) -> FloatArray:
    """(number, ``N_WEIGHTS``) random preferences, as those of ``solvers.search``: price and tastes.

    Prices are over twelve octaves, and seven of ten schedules have tastes.
    """
    weights = np.tile(MEANS, (number, 1))
    octaves = rng.integers(0, 12, number) - 8.0
    weights[:, PRICE] = octaves + np.log2(0.5 + rng.random(number))
    strengths = np.log2(1.0 - rng.random(number)) + rng.integers(0, 6, number)
    weights[:, STRENGTH] = np.where(rng.random(number) < 0.7, strengths, -99.0)
    weights[:, LASTING] = -rng.integers(0, 9, number)
    return (weights - MEANS) / SCALES
