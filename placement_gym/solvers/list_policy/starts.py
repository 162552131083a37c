"""Placements from which a search may start: the best of learned and of random list schedules."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.problem.problem import Problem
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.list_policy.policy import MANY, load_shipped
from placement_gym.solvers.list_policy.scheduler import ListScheduler, draw_actions
from placement_gym.solvers.list_policy.statistics import compute_statistics

BATCHES = (8, 0, 1), (40, 16, 2)
"""Learned and random schedules, and how many of the best are starts: soon, and then of more."""
FEWEST, WORK = 2, 2_000_000
"""Schedules of a batch in the largest problems; operators times devices of all in others."""


def propose_lists(
    problem: Problem, simulator: Simulator, rng: np.random.Generator
) -> Iterator[IntArray]:
    """Yield (n_units,) devices of the best of some list schedules, then of more."""
    scheduler = ListScheduler(problem, simulator)
    policy, seen = load_shipped(MANY), compute_statistics(scheduler.view)
    total = sum(learned + random for learned, random, _ in BATCHES)
    share = min(WORK / (scheduler.view.ms.size * total), 1.0)
    for learned, random, number in BATCHES:
        drawn = policy.draw(seen, max(int(share * learned), FEWEST), rng)
        actions = np.concatenate([drawn, draw_actions(rng, int(share * random))])
        yield from scheduler.find_best(actions, rng, number)[0].astype(np.int64)
