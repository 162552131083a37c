"""Moves of groups: what they change, what they prefer, and that HSDAG makes them."""

from __future__ import annotations

import numpy as np
from learned import simulated

from agents.common.group_moves import MOST_GROUPS, GroupMoves
from agents.hsdag.agent import make
from placement_gym.arrays import IntArray
from placement_gym.env import DevicePlacementEnv

LIMITED = [
    {"name": "CPU", "roofline": "CPU"},
    {"name": "GPU", "roofline": "GPU", "weight_share": 0.4},
]


def make_moves(env: DevicePlacementEnv) -> GroupMoves:
    moves = GroupMoves(env)
    moves.rng = np.random.default_rng(0)
    moves.follow(np.zeros(env.problem.n_units, dtype=np.int64))
    return moves


def pairs(n: int, k: int) -> IntArray:
    """Leaders of groups of two neighbours each."""
    return np.tile(np.arange(n) // 2 * 2, (k, 1))


def test_units_of_a_group_move_together_and_few_groups_at_once() -> None:
    env = simulated("inception")
    n = env.problem.n_units
    moves = make_moves(env)
    moves.leader, moves.probability = pairs(n, 1), np.full((1, n, 2), 0.5)
    changed = moves.change(moves.best, 40)
    even = n // 2 * 2
    assert (changed[:, :even:2] == changed[:, 1:even:2]).all()
    groups = changed[:, ::2].sum(axis=1)
    assert groups.min() >= 1
    assert groups.max() == MOST_GROUPS


def test_groups_of_whose_device_the_policy_is_certain_move_less() -> None:
    env = simulated("inception")
    n = env.problem.n_units
    moves = make_moves(env)
    certain = np.zeros((1, n, 2))
    certain[..., 0] = 1.0
    certain[:, n // 2 :] = [0.0, 1.0]  # only here the policy wants another device
    moves.leader, moves.probability = pairs(n, 1), certain
    changed = moves.change(moves.best, 60)
    assert changed[:, n // 2 :].sum() > 5 * changed[:, : n // 2].sum()


def test_moves_fit_where_the_environment_repairs() -> None:
    env = simulated("inception", devices=LIMITED, repair=True)
    n = env.problem.n_units
    moves = make_moves(env)
    found = moves.move(pairs(n, 6), np.full((6, n, 2), 0.5), np.random.default_rng(1))
    assert found.shape == (6, n)
    assert all(not env.backend.infeasibility(one) for one in found)


def test_hsdag_moves_groups_of_its_best_placement() -> None:
    env = simulated("inception", devices=LIMITED, repair=True)
    model = make(env, 0, policy={"hidden": 16}, start="quick")
    model.learn(30)
    assert model.policy.movement is not None
    best, rows = model.policy.movement.best, model.rollout_buffer.actions[0]
    changed = [(row[: len(best)] != best).sum() for row in rows[1:]]
    assert 0 < np.median(changed) < 0.5 * len(best)
