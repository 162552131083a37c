"""Variants of a placement that nearly fills a device: a profile cannot show what that costs.

Near a full device times rise suddenly, as memory is moved or shared. Stages that are profiled alone
never fill it, so placements with less on the device, and where it may hold more also with more on
it, are measured too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.deployment.candidates import Candidate, collect
from placement_gym.deployment.memory import count_held, explain_excess, within_reported
from placement_gym.problem.problem import Problem
from placement_gym.solvers.repair import RepairPrices, repair

NEAR_FULL = 0.9
"""Share of what a device holds, or reports, from which on variants are measured."""
LESS, MORE = (0.9, 0.75), (1.1,)
"""Bytes that variants put on the device, as shares of the split's."""
OTHERS = "others"


def add_variants(twin: SimulatedBackend, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, and variants of the best ones by the twin that nearly fill a device.

    These are the fastest device alone and the fastest split that fit, and the fastest split within
    what devices report.
    """
    problem = twin.problem
    fitting = sorted(
        (one for one in candidates if fits(problem, one.assignment)),
        key=lambda one: one.predicted_ms,
    )
    alone = [one for one in fitting if one.alone]
    splits = [one for one in fitting if not one.alone]
    reported = within_reported(problem)
    modest = [one for one in splits if fits(reported, one.assignment)]
    best = {one.label: one for one in (*alone[:1], *splits[:1], *modest[:1])}.values()
    variants = [variant for one in best for variant in vary(twin, one)]
    fitting_splits = [one for one in variants if np.ptp(one[1]) and fits(problem, one[1])]
    return collect(twin, fitting_splits, candidates)


def fits(problem: Problem, assignment: IntArray) -> bool:
    """Return whether a placement respects support and limits, copies of weights included."""
    return not (problem.infeasibility(assignment) or explain_excess(problem, assignment))


def vary(twin: SimulatedBackend, split: Candidate) -> list[tuple[str, IntArray]]:
    """Labels and placements with less, or more, on each device that a split nearly fills."""
    problem = twin.problem
    holds = np.minimum(problem.limits_bytes, problem.reported_bytes)
    held = count_held(problem, split.assignment).total
    found = []
    for device in np.flatnonzero(held > NEAR_FULL * holds).tolist():
        name = problem.device_names[device]
        for share in LESS:
            limits = np.full(len(holds), np.inf)
            limits[device] = share * min(held[device], holds[device])
            label = f"{split.label}, {round(100 * (1 - share))} % less on {name}"
            found.append((label, move_least(twin, problem.with_limits(limits), split)))
        if problem.reported_bytes[device] > problem.limits_bytes[device]:
            continue  # more does not fit
        for share in MORE:
            rest = max(problem.unit_bytes.sum() - share * held[device], 0.0)
            label = f"{split.label}, {round(100 * (share - 1))} % more on {name}"
            found.append((label, move_least(twin, limit_others(problem, device, rest), split)))
    return found


def limit_others(problem: Problem, device: int, limit_bytes: float) -> Problem:
    """The problem in which all devices but one hold only so much together."""
    unlimited = problem.with_limits(np.full(len(problem.devices), np.inf))
    others = tuple(
        one if index == device else replace(one, memory_pool=OTHERS, memory_bytes=int(limit_bytes))
        for index, one in enumerate(unlimited.devices)
    )
    return replace(problem, devices=others)


def move_least(twin: SimulatedBackend, problem: Problem, split: Candidate) -> IntArray:
    """The split, repaired to fit a problem: units with the least regret by the profile move."""
    prices = RepairPrices.of(problem, twin.costs)
    return repair(problem, split.assignment[None], prices.unit_ms, prices.links)[0]
