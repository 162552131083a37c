# White-box tests of agents.search
"""Moves of the searches, and the placements that they start from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agents.search.moves import Moves
from agents.search.starts import propose_heuristics, propose_starts
from placement_gym.base import IntArray
from placement_gym.envs import DevicePlacementEnv, placement_env
from placement_gym.solvers import heft
from placement_gym.solvers.search import RandomMoves

LIMITED = ["CPU", {"name": "GPU.0", "weight_share": 0.3}, {"name": "GPU.1", "weight_share": 0.3}]


def environment(model: str = "resnet", devices: Any = LIMITED, **kwargs: Any) -> DevicePlacementEnv:
    env = gym.make("placement_gym:DevicePlacementSim-v0", model=model, devices=devices, **kwargs)
    return placement_env(env)


def blocks(env: DevicePlacementEnv) -> IntArray:
    n = env.problem.n_units
    return np.arange(n) * len(env.problem.devices) // n


def test_moves_keep_support_and_differ_from_the_placement() -> None:
    problem = environment().problem
    supported = np.random.default_rng(1).random((problem.n_units, 3)) < 0.5
    supported[:, 0] = True
    problem = replace(problem, supported=supported)
    start = problem.single(0)
    changed = RandomMoves(problem, None, np.random.default_rng(0)).change(start, 200)
    assert (changed != start).any(axis=1).mean() > 0.9
    assert problem.supported[np.arange(problem.n_units), changed].all()


def test_moves_are_of_every_size() -> None:
    env = environment("synthetic-layered-40")
    start = blocks(env)
    changed = Moves(env, np.random.default_rng(0), screen=1).change(start, 300)
    sizes = (changed != start).sum(axis=1)
    assert sizes.min() <= 1
    assert sizes.max() > len(start) // 2
    assert len(np.unique(sizes)) > 10


def test_equal_seeds_propose_equal_moves() -> None:
    env = environment()
    first, again, other = (
        Moves(env, np.random.default_rng(seed)).propose(blocks(env), 20) for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_screened_moves_are_cheaper_and_fit() -> None:
    env = environment()
    env.repair = True
    start = env.repair_placements(blocks(env)[None])[0]
    mean_ms = {}
    for screen in (1, 10):
        tried = Moves(env, np.random.default_rng(0), screen).propose(start, 100)
        assert env.backend.evaluate_batch(tried).feasible.all()
        mean_ms[screen] = env.repair_prices.total_ms(tried).mean()
    assert mean_ms[10] < mean_ms[1]


def test_moved_units_stay_when_others_make_room() -> None:
    env = environment()
    env.repair = True
    start = env.repair_placements(np.ones((1, env.problem.n_units), dtype=np.int64))[0]
    moves = Moves(env, np.random.default_rng(0), screen=1)
    assert (moves.propose(start, 50) != start).any(axis=1).mean() > 0.9


def test_moves_without_rough_costs_are_not_screened() -> None:
    env = environment()
    env.costs, env.backend = None, type("Unknown", (), {"rough_costs": None})()
    assert Moves(env, np.random.default_rng(0)).screen == 1


@pytest.mark.parametrize("repaired", [True, False])
def test_heuristics_are_distinct_and_fit_where_they_are_repaired(repaired: bool) -> None:
    env = environment(schedule="list")
    env.repair = repaired
    starts = propose_heuristics(env)
    assert len(np.unique(starts, axis=0)) == len(starts)
    feasible = env.backend.evaluate_batch(starts).feasible
    assert feasible.all() == repaired
    assert (starts == heft(env.problem, env.cost_table())).all(axis=1).any()
    again = propose_heuristics(env)
    assert (again == starts).all()


def test_quick_starts_leave_the_program_out() -> None:
    env = environment()
    assert propose_starts(env, "quick") is not None
    assert "milp" not in env.starts.values()
    assert propose_starts(env) is not None
    assert "milp" in env.starts.values()
    assert propose_starts(env, "random") is None


@pytest.mark.parametrize(("most", "solved"), [(37 * 9, True), (37 * 9 - 1, False)])
def test_large_programs_are_left_out(
    most: int, solved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.search.starts.MANY_VARIABLES", most)
    env = environment()
    propose_heuristics(env)
    assert ("milp" in env.starts.values()) == solved


def test_one_device_has_one_start() -> None:
    assert propose_heuristics(environment(devices=["CPU"])).tolist() == [[0] * 37]
