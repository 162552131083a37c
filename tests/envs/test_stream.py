# White-box tests of graph.families
"""The stream of problems, and weights as actions elsewhere."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from sb3_contrib import TQC, TRPO
from stable_baselines3 import A2C, PPO, SAC, TD3
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from placement_gym.base import UserError
from placement_gym.envs import StreamEnv
from placement_gym.graph.families import make_problem, split_of_seed
from placement_gym.graph.families.stream import UNSEEN
from placement_gym.problem.costs import CostGraph
from placement_gym.solvers.list_policy import N_WEIGHTS, earliest_finish

ENV_ID = "DevicePlacementStream-v0"
SMALL: dict[str, Any] = {"n_problems": 3, "sizes": (50, 100)}


@pytest.mark.parametrize("action", ["weights", "units"])
@pytest.mark.parametrize("observation", ["statistics", "graph"])
def test_both_checkers_pass(action: str, observation: str) -> None:
    env = gym.make(ENV_ID, **SMALL, action=action, observation=observation)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env.unwrapped, skip_render_check=True)
        check_env_for_sb3(env)
    assert observation == "graph" or not caught


def test_every_problem_is_shown_by_text_and_by_pictures_of_one_size() -> None:
    pictures = []
    for mode in ("ansi", "rgb_array"):
        env = gym.make(ENV_ID, **SMALL, split="validation", render_mode=mode)
        for problem in (0, 1):
            _, begun = env.reset(options={"problem": problem})
            shown = [env.render()]
            env.step(np.zeros(N_WEIGHTS, np.float32))
            shown.append(env.render())
            if mode == "ansi":
                assert f"{begun['reference_ms']:.3f} ms, 1.00 x" in str(shown[0])
                assert "1.00 x" not in str(shown[1])
            pictures += shown if mode == "rgb_array" else []
    assert {picture.shape for picture in pictures} == {(750, 1100, 3)}
    assert len({picture.tobytes() for picture in pictures}) == 4


def test_a_seed_is_a_problem_of_its_split() -> None:
    for split in ("train", "validation", "test"):
        env = StreamEnv(split, n_problems=5, sizes=(50, 100))
        seeds = [env.reset(seed=1)[1]["problem"]]
        seeds += [env.reset()[1]["problem"] for _ in range(20)]
        assert {split_of_seed(seed) for seed in seeds} == {split}
        assert 3 <= len(set(seeds)) <= 5
        assert env.reset(seed=1)[1]["problem"] == seeds[0]
    assert env.reset(options={"problem": 10_400})[1]["problem"] == 10_400
    drawn = {StreamEnv("test").find_problem(seed).sampled.family for seed in range(10_000, 10_012)}
    assert drawn & set(UNSEEN)


@pytest.mark.parametrize(
    ("split", "problem", "message"),
    [
        ("test", 0, "problem 0 is of the split validation; test has problems 10000 to 19999"),
        ("train", 10_000, "problem 10000 is of the split test; train has problems 20000 to"),
        ("validation", 10_007, "validation has problems 0 to 9999"),
        ("validation", 2**40, "a seed is a number from 0 to"),
        ("validation", "0", "option 'problem' must be an integer"),
    ],
)
def test_problems_of_other_splits_are_refused(split: str, problem: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        gym.make(ENV_ID, split=split).reset(options={"problem": problem})


def test_equal_actions_have_equal_rewards_whatever_the_seed() -> None:
    action = np.zeros(N_WEIGHTS, np.float32)
    rewards = set()
    for seed in (0, 1, None):
        env = StreamEnv("validation")
        env.reset(seed=seed)
        for _ in range(2):
            env.reset(options={"problem": 5})
            rewards.add(env.step(action)[1])
    assert len(rewards) == 1


def test_families_devices_and_schedule_are_as_asked() -> None:
    env = StreamEnv(
        n_problems=3, families=["recurrent"], sizes=(50, 100), devices="cpu+igpu", schedule="serial"
    )
    for seed in env.seeds:
        problem = env.find_problem(seed)
        assert problem.sampled.family == "recurrent"
        assert 50 <= problem.problem.n_units <= 100
        assert len(problem.problem.devices) == 2
        assert problem.simulator.semantics.schedule == "serial"


def test_rewards_are_relative_to_the_floor() -> None:
    env = StreamEnv(**SMALL, action="units")
    _, start = env.reset(seed=0)
    _, reward, terminated, _, info = env.step(np.zeros(100, np.int64))
    assert terminated
    assert start["latency_ms"] == info["floor_ms"] <= info["reference_ms"]
    assert reward == pytest.approx(np.log(info["floor_ms"] / info["latency_ms"]))


def test_the_floor_is_at_least_earliest_finish() -> None:
    env = StreamEnv(**SMALL)
    for problem in map(env.find_problem, env.seeds):
        found_ms, _ = problem.repair(earliest_finish(problem.problem, problem.simulator))
        single_ms = [
            problem.evaluate(problem.problem.single(device))[0]
            for device in range(len(problem.problem.devices))
        ]
        assert problem.floor_ms <= min(found_ms, *single_ms)


def test_a_problem_may_last_several_episodes() -> None:
    env = StreamEnv(n_problems=None, sizes=(50, 100), episodes=2)
    seeds = [env.reset(seed=3)[1]["problem"]]
    seeds += [env.reset()[1]["problem"] for _ in range(4)]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3] != seeds[4]


def test_problems_may_be_made_by_another_function() -> None:
    env = StreamEnv(make_problem=make_problem, n_problems=4)
    env.reset(seed=0, options={"problem": 20_002})
    assert env.current.sampled == make_problem(20_002)


def test_problems_may_be_graphs_of_ones_own() -> None:
    def make(seed: int) -> CostGraph:
        ms = np.random.default_rng(seed).uniform(1, 9, (20, 2))
        edges = [(i, i + 1) for i in range(19)]
        return CostGraph(ms=ms, edges=edges, edge_bytes=1e6, devices=["CPU", "GPU"], gb_per_s=1)

    env = StreamEnv(make_problem=make, n_problems=4, action="units")
    _, info = env.reset(options={"problem": 20_002})
    assert info["reference_ms"] == pytest.approx(make(20_002).ms[:, 0].sum())
    assert env.current.simulator.semantics.schedule == "list"


@pytest.mark.parametrize("limit", [1, 3])
def test_a_vector_equals_single_environments(limit: int) -> None:
    kwargs = {"max_episode_steps": limit, "render_mode": "ansi", **SMALL}
    vector = gym.make_vec(ENV_ID, 3, **kwargs)
    singles = SyncVectorEnv(
        [lambda: gym.make(ENV_ID, **kwargs)] * 3, autoreset_mode=AutoresetMode.SAME_STEP
    )
    starts = [envs.reset(seed=5) for envs in (vector, singles)]
    np.testing.assert_array_equal(starts[0][0], starts[1][0])
    vector.action_space.seed(0)
    for _ in range(4):
        actions = vector.action_space.sample()
        ours, theirs = vector.step(actions), singles.step(actions)
        for one, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(one, other)
        for key in ("latency_ms", "problem"):
            np.testing.assert_array_equal(ours[4]["final_info"][key], theirs[4]["final_info"][key])
            np.testing.assert_array_equal(ours[4][key], theirs[4][key])
        assert vector.render() == singles.render()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"split": "dev"}, "split"),
        ({"action": "unit"}, "units"),
        ({"observation": "graphs"}, "graph"),
        ({"n_problems": 0}, "n_problems"),
        ({"sizes": (50,)}, "sizes"),
        ({"families": ["atention"]}, "attention"),
        ({"schedule": "lists"}, "list"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        StreamEnv(**kwargs)


@pytest.mark.parametrize("algorithm", [PPO, A2C, TRPO, SAC, TD3, TQC])
def test_algorithms_of_sb3_learn_to_choose_weights(algorithm: Any) -> None:
    envs = make_vec_env(ENV_ID, 2, env_kwargs=SMALL)
    on_policy = issubclass(algorithm, OnPolicyAlgorithm)
    settings = {"n_steps": 8} if on_policy else {"learning_starts": 8}
    if algorithm in (PPO, TRPO):
        settings["batch_size"] = 16
    model = algorithm("MlpPolicy", envs, seed=0, device="cpu", **settings)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(16)
    changed = zip(before, model.policy.parameters(), strict=True)
    assert any((one != other).any() for one, other in changed)
    action, _ = model.predict(envs.reset())
    assert action.shape == (2, N_WEIGHTS)


def test_it_takes_the_wrappers_of_cleanrl() -> None:
    def make() -> gym.Env[Any, Any]:
        env = gym.wrappers.FlattenObservation(gym.make(f"placement_gym:{ENV_ID}", **SMALL))
        env = gym.wrappers.ClipAction(gym.wrappers.RecordEpisodeStatistics(env))
        return gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env))

    envs = SyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    observation, reward, terminated, _, info = envs.step(2.0 * np.ones(envs.action_space.shape))
    assert envs.observation_space.contains(observation)
    assert np.isfinite(reward).all()
    assert terminated.all()
    assert (info["final_info"]["episode"]["l"] == 1).all()


def test_wrong_actions_and_options_are_named() -> None:
    env = StreamEnv(**SMALL)
    env.reset()
    with pytest.raises(UserError, match="9 numbers"):
        env.step(np.zeros(3))
    with pytest.raises(UserError, match="problem"):
        env.reset(options={"placement": 3})


@pytest.mark.parametrize("name", ["sizes", "families", "make_problem"])
def test_argument_of_another_type_is_named(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} must be .*1.5"):
        gym.make("DevicePlacementStream-v0", **{name: 1.5})
