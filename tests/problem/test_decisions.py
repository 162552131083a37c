# White-box tests of agents, agents.search
"""Environments whose actions decide priority and fusion beside the placement."""

from __future__ import annotations

from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import placed
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from vector_play import same_play

from agents.search.annealing import Annealing
from agents.solvers import heft, milp
from placement_gym.base import UserError
from placement_gym.bench import compare
from placement_gym.envs import (
    DevicePlacementEnv,
    PlacementVectorEnv,
    SimulatedEnv,
    SimulatedVectorEnv,
    placement_env,
)
from placement_gym.problem import DECISIONS, LEVELS

ENV = "placement_gym:DevicePlacementSim-v0"


def joint(model: str = "tiny", decisions: Any = DECISIONS, **kwargs: Any) -> DevicePlacementEnv:
    kwargs = {"schedule": "event", **kwargs}
    env = gym.make(ENV, model=model, decisions=decisions, **kwargs)
    return placement_env(env, joint=True)


def test_it_keeps_gymnasiums_contract() -> None:
    check_env(joint(), skip_render_check=True)


def test_an_environment_of_placements_is_what_it_was() -> None:
    for decisions in ({}, {"decisions": ("placement",)}, {"decisions": ["placement"]}):
        env = gym.make(ENV, model="tiny", **decisions)
        assert type(env.unwrapped) is SimulatedEnv
        assert env.action_space == gym.make(ENV, model="tiny").action_space


@pytest.mark.parametrize("further", [("priority",), ("fusion",), ("priority", "fusion")])
def test_an_action_has_a_part_for_each_decision(further: tuple[str, ...]) -> None:
    env = joint(decisions=("placement", *further))
    n, edges = env.problem.n_units, env.problem.units.quotient.n_edges
    expected = (
        [2] * n + [LEVELS] * n * ("priority" in further) + [2] * edges * ("fusion" in further)
    )
    assert env.action_space.nvec.tolist() == expected
    assert env.action_masks().shape == (sum(expected),)
    observation, _ = env.reset(seed=0)
    action = env.action_space.sample()
    observation, _, _, _, info = env.step(action)
    assert env.observation_space.contains(observation)
    np.testing.assert_array_equal(placed(observation), action[:n])
    if "priority" in further:
        np.testing.assert_array_equal(LEVELS * observation["priority"], action[n : 2 * n])
    if "fusion" in further:
        np.testing.assert_array_equal(observation["fused"], action[len(action) - edges :])
    assert env.evaluate_batch(action[None])[1].speedup[0] == info["speedup"]


def test_placement_alone_is_evaluated_at_level_zero_unfused() -> None:
    env = joint("resnet")
    rng = np.random.default_rng(0)
    placement = rng.integers(0, 2, env.problem.n_units)
    rows, batch = env.evaluate_batch(placement[None])
    assert rows.shape == (1, env.layout.width)
    assert env.evaluate(placement).speedup == batch.speedup[0]
    assert not rows[0, env.problem.n_units :].any()


def test_fusing_all_on_one_device_costs_work_without_launches() -> None:
    env = joint(granularity="op")
    single = env.problem.single(1)
    row = env.layout.complete(single[None])[0]
    row[2 * env.problem.n_units :] = 1
    assert env.evaluate(row).latency_ms < 0.7 * env.evaluate(single).latency_ms


def test_repair_changes_the_placement_alone() -> None:
    devices = ["CPU", {"name": "GPU", "weight_share": 0.5}]
    env = joint("resnet", devices=devices, repair=True)
    row = env.action_space.sample()
    row[: env.problem.n_units] = 1
    (fitting,), batch = env.evaluate_batch(row[None])
    assert batch.feasible[0]
    assert (fitting != row)[: env.problem.n_units].any()
    np.testing.assert_array_equal(fitting[env.problem.n_units :], row[env.problem.n_units :])


def test_noise_is_seeded() -> None:
    env, results = joint(noise=0.1), []
    action = env.action_space.sample()
    for seed in (3, 3, 4):
        env.reset(seed=seed)
        results.append(env.step(action)[4]["latency_ms"])
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"decisions": ("priority",)}, "decisions are 'placement' and then"),
        ({"decisions": ("placement", "fusion", "priority")}, "and then"),
        ({"decisions": "placement"}, "decisions are"),
        ({"schedule": "serial"}, "schedule='event'"),
        ({"schedule": {"preset": "event", "memory": "lifetime"}}, "memory='static'"),
        ({"max_nodes": 100}, "max_nodes"),
    ],
)
def test_what_does_not_go_together_is_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        joint(**kwargs)


def test_an_action_of_another_length_is_refused() -> None:
    env = joint()
    with pytest.raises(UserError, match="numbers"):
        env.step(np.zeros(env.problem.n_units, dtype=np.int64))
    with pytest.raises(UserError, match="levels below 8"):
        env.step(np.full(env.layout.width, 8))


def test_what_places_units_alone_is_refused_with_a_remedy() -> None:
    env = joint()
    with pytest.raises(UserError, match=r"decisions=\('placement',\)"):
        milp(env, 0)
    kwargs = {"schedule": "event", "decisions": list(DECISIONS)}
    with pytest.raises(UserError, match="studies save and replay placements"):
        compare("tiny", ["random"], "DevicePlacementSim-v0", env_kwargs=kwargs)


def test_annealing_finds_the_best_of_all_decisions() -> None:
    env = joint(schedule="event", devices="cpu+igpu")
    placements = np.array(list(product(range(2), repeat=env.problem.n_units)))
    alone = env.evaluate_batch(placements)[1].speedup.max()
    search = Annealing(env, 0, start="random")
    search.learn(400)
    assert search.best_speedup > alone
    action, _ = search.predict(env.reset()[0])
    assert env.step(action)[4]["speedup"] == search.best_speedup


def test_heft_gives_the_longest_path_the_highest_level() -> None:
    env = joint("inception")
    row = heft(env, 0).assignment
    levels = env.layout.split(row).priority
    assert levels[0] == LEVELS - 1
    assert levels[-1] == 0
    assert not env.layout.split(row).fused.any()


@pytest.mark.parametrize("further", [("priority",), ("fusion",), ("priority", "fusion")])
def test_a_batch_plays_as_single_environments_do(further: tuple[str, ...]) -> None:
    options: dict[str, Any] = {
        "model": "tiny",
        "schedule": "event",
        "decisions": ("placement", *further),
        "devices": ["CPU", {"name": "GPU", "weight_share": 0.5}],
        "horizon": 2,
        "noise": 0.1,
    }
    single = [lambda: SimulatedEnv(**options)] * 4
    theirs = SyncVectorEnv(single, autoreset_mode=AutoresetMode.SAME_STEP)
    ours = SimulatedVectorEnv(4, **options)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    same_play(ours, theirs, 5, seed=11)


def test_batched_actions_of_another_width_or_range_are_refused() -> None:
    env = joint()
    envs = PlacementVectorEnv(env, 2)
    with pytest.raises(UserError, match="are \\(2, "):
        envs.step(np.zeros((2, env.problem.n_units), dtype=np.int64))
    with pytest.raises(UserError, match="levels below 8"):
        envs.step(np.full((2, env.layout.width), 8))
