"""Placements from which a search may start: the best of learned and of random list schedules."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.problem.problem import Problem
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.list_policy.policy import MANY, ListPolicy
from placement_gym.solvers.list_policy.scheduler import ListScheduler, draw_actions
from placement_gym.solvers.list_policy.statistics import compute_statistics

STARTS = 3
LEARNED, RANDOM = 48, 16
"""Schedules of which the best are taken, and fewer in a large problem."""
FEWEST, WORK = 4, 2_000_000
"""Schedules in the largest problems; operators times devices that are scheduled in others."""


def propose_lists(
    problem: Problem, simulator: Simulator, rng: np.random.Generator
) -> IntArray:
    """(k, n_units) devices of at most ``STARTS`` list schedules, the best one first."""
    scheduler = ListScheduler(problem, simulator)
    share = WORK / scheduler.view.ms.size / (LEARNED + RANDOM)
    n_learned, n_random = (
        max(min(number, int(share * number)), FEWEST // 2) for number in (LEARNED, RANDOM)
    )
    learned = ListPolicy.load(MANY).draw(compute_statistics(scheduler.view), n_learned, rng)
    actions = np.concatenate([learned, draw_actions(rng, n_random)])
    return scheduler.find_best(actions, rng, STARTS)[0].astype(np.int64)
