from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import FakeBackend, diamond_backend, diamond_costs, diamond_problem, placed

import placement_gym
from envs_registry import ENVS
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import UserError
from placement_gym.envs import DevicePlacementEnv, PerUnitEnv, SimulatedEnv, read_current_unit
from placement_gym.hardware import DeviceSpec
from placement_gym.problem.costs import Semantics

N_UNITS = 4


def per_unit(backend: Any = None, inner: dict[str, Any] | None = None, **kwargs: Any) -> PerUnitEnv:
    return PerUnitEnv(DevicePlacementEnv(backend or diamond_backend(), **(inner or {})), **kwargs)


def play_episode(
    env: gym.Env[Any, Any], devices: Iterable[int], seed: int | None = None
) -> tuple[list[float], list[dict[str, Any]], list[dict[str, Any]]]:
    """Play an episode; return its rewards, and observations and infos from the reset on."""
    observation, info = env.reset(seed=seed)
    rewards, observations, infos = [], [observation], [info]
    for device in devices:
        observation, reward, *_, info = env.step(device)
        rewards.append(float(reward))
        observations.append(observation)
        infos.append(info)
    return rewards, observations, infos


def test_an_episode_visits_every_unit_once_in_topological_order() -> None:
    env = per_unit()
    _, observations, _ = play_episode(env, [1, 0, 1, 0])
    current = [int(read_current_unit(observation)[0]) for observation in observations]
    visited = [observation["visited"].tolist() for observation in observations]
    assert current[:N_UNITS] == [0, 1, 2, 3]
    assert visited == [[1] * step + [0] * (N_UNITS - step) for step in range(N_UNITS + 1)]
    assert placed(observations[-1]).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("horizon", [1, 9])
def test_an_episode_ends_with_the_last_unit_whatever_the_horizon(horizon: int) -> None:
    env = per_unit(inner={"horizon": horizon})
    env.reset()
    ends = [env.step(1)[2:4] for _ in range(N_UNITS)]
    assert ends == [(False, False)] * (N_UNITS - 1) + [(True, False)]


def test_each_step_moves_one_unit() -> None:
    _, observations, _ = play_episode(per_unit(), [1, 1, 0, 1])
    placements = [placed(observation).tolist() for observation in observations]
    assert placements == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 1]]


@pytest.mark.parametrize("start", ["first", "random", "best"])
def test_improvements_sum_to_what_the_episode_saved(start: str) -> None:
    env = per_unit(start=start)
    for seed, devices in enumerate(([1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1])):
        rewards, _, infos = play_episode(env, devices, seed)
        saved = infos[0]["latency_ms"] - infos[-1]["latency_ms"]
        assert sum(rewards) == pytest.approx(saved / infos[0]["reference_ms"])


def test_the_info_describes_the_placement_observed() -> None:
    env = per_unit(start="random")
    _, observations, infos = play_episode(env, [1, 1, 0, 0], seed=3)
    for observation, info in zip(observations, infos, strict=True):
        on_device_1 = placed(observation).astype(bool)
        weights = np.array([100, 200, 300, 400])
        assert info["memory_bytes"].tolist() == [
            weights[~on_device_1].sum(),
            weights[on_device_1].sum(),
        ]


def test_infeasible_step_costs_ten_references_and_ends_nothing() -> None:
    env = per_unit(diamond_backend(diamond_problem(refused=[(1, 1)])))
    env.reset()
    env.step(0)
    _, reward, terminated, _, info = env.step(1)
    assert (info["feasible"], terminated) == (False, False)
    assert info["latency_ms"] == pytest.approx(10 * info["reference_ms"])
    assert reward == pytest.approx(-9.0)


def test_random_start_follows_the_seed_first_is_the_reference() -> None:
    env = per_unit(start="random")
    starts = [tuple(placed(env.reset(seed=seed)[0]).tolist()) for seed in (*range(20), 0)]
    assert starts[0] == starts[-1]
    assert len(set(starts)) > 5
    observation, info = per_unit(start="first").reset()
    assert (placed(observation).tolist(), info["speedup"]) == ([0] * N_UNITS, 1.0)


def test_start_random_uses_supported_devices_only() -> None:
    env = per_unit(diamond_backend(diamond_problem(refused=[(1, 1), (3, 1)])), start="random")
    starts = np.array([placed(env.reset(seed=seed)[0]) for seed in range(30)])
    assert starts.any(axis=0).tolist() == [True, False, True, False]


def test_start_random_is_evaluated_as_it_stands() -> None:
    env = per_unit(FakeBackend(), start="random")
    observation, info = env.reset(seed=1)
    assert info["latency_ms"] == 10.0 + placed(observation).sum()


def test_start_best_returns_to_the_fastest_placement_seen() -> None:
    env = per_unit(start="best")
    assert placed(env.reset()[0]).tolist() == [0] * N_UNITS
    _, observations, infos = play_episode(env, [1, 1, 1, 1])
    fastest = int(np.argmin([info["latency_ms"] for info in infos]))
    observation, info = env.reset()
    assert placed(observation).tolist() == placed(observations[fastest]).tolist()
    assert info["latency_ms"] == infos[fastest]["latency_ms"]


@pytest.mark.parametrize(
    ("reward", "expected"), [("improvement", [1, 1, 1, 0]), ("final", [0, 0, 0, 0])]
)
def test_start_best_ignores_infeasible_placements(reward: str, expected: list[int]) -> None:
    backend = FakeBackend(lambda a: 10.0 - float(a.sum()), diamond_problem(refused=[(3, 1)]))
    env = per_unit(backend, start="best", reward=reward)
    play_episode(env, [1, 1, 1, 1])
    assert placed(env.reset()[0]).tolist() == expected


def test_start_best_with_the_final_reward_keeps_improvements() -> None:
    """A start that was not evaluated is not taken for as fast as the reference."""
    env = per_unit(FakeBackend(), start="best", reward="final")
    for devices in ([1, 1, 1, 1], [1, 0, 0, 0]):
        play_episode(env, devices)
    assert placed(env.reset()[0]).tolist() == [1, 0, 0, 0]


def test_an_episode_leaves_the_best_placement_as_it_was() -> None:
    env = per_unit(FakeBackend(), start="best")
    for devices in ([1, 1, 1, 1], [0, 1, 1, 1]):
        play_episode(env, devices)
        assert placed(env.reset()[0]).tolist() == [0] * N_UNITS


def test_the_final_reward_evaluates_only_once_an_episode() -> None:
    backend = FakeBackend()
    env = per_unit(backend, reward="final")
    env.reset()
    known = len(backend.calls)
    for device in (1, 0, 1, 0):
        env.step(device)
    assert backend.calls[known:] == [("evaluate", (1, 0, 1, 0))]


@pytest.mark.parametrize("start", ["first", "random", "best"])
def test_the_final_reward_is_the_inner_envs(start: str) -> None:
    env = per_unit(inner={"reward": "inverse_latency"}, start=start, reward="final")
    for _ in range(2):
        rewards, _, infos = play_episode(env, [1, 1, 0, 0], seed=0)
        assert rewards[:-1] == [0.0] * (N_UNITS - 1)
        assert rewards[-1] == pytest.approx(1e3 / infos[-1]["latency_ms"])


def test_observations_stay_in_the_space_and_share_no_memory() -> None:
    env = per_unit(inner={"max_nodes": 6, "max_edges": 8})
    _, observations, _ = play_episode(env, [1, 0, 1, 0])
    assert all(env.observation_space.contains(observation) for observation in observations)
    arrays = [value for observation in observations for value in observation.values()]
    assert not any(np.shares_memory(a, b) for a, b in combinations(arrays, 2))


def test_padded_units_are_not_visited() -> None:
    _, observations, _ = play_episode(per_unit(inner={"max_nodes": 6}), [1, 0, 1, 0])
    assert observations[-1]["visited"].tolist() == [1, 1, 1, 1, 0, 0]
    assert observations[-1]["start"].shape == (6,)


def test_start_times_are_zero_where_the_backend_knows_none() -> None:
    observation, _ = per_unit(FakeBackend()).reset()
    assert observation["start"].tolist() == [0.0] * N_UNITS


def test_masks_are_those_of_the_current_unit() -> None:
    env = per_unit(diamond_backend(diamond_problem(refused=[(1, 1)])))
    env.reset()
    masks = [env.action_masks().tolist()]
    for _ in range(2):
        env.step(0)
        masks.append(env.action_masks().tolist())
    assert masks == [[True, True], [True, False], [True, True]]


def test_masks_leave_out_devices_without_room_beside_the_units_placed() -> None:
    gpu = DeviceSpec("GPU", memory_bytes=350)  # the units hold 100, 200, 300 and 400
    env = per_unit(diamond_backend(diamond_problem((DeviceSpec("CPU"), gpu))))
    env.reset(options={"placement": [1, 1, 1, 1]})
    masks = [env.action_masks().tolist()]
    for device in (0, 1, 0):
        env.step(device)
        masks.append(env.action_masks().tolist())
    assert masks == [[True, True], [True, True], [True, False], [True, False]]


def test_where_weights_have_no_limit_masks_are_support_alone() -> None:
    problem = diamond_problem((DeviceSpec("CPU"), DeviceSpec("GPU", memory_bytes=50)))
    env = per_unit(SimulatedBackend(problem, diamond_costs(problem), Semantics(memory="off")))
    env.reset()
    assert env.action_masks().all()


@pytest.mark.parametrize("env_id", [env["id"] for env in ENVS if "Sim" in env["id"]])
def test_spaces_and_masks_of_the_unwrapped_environment_are_its_own(env_id: str) -> None:
    env = gym.make(env_id, model="tiny", max_devices=4)
    inner: Any = env.unwrapped
    assert (inner.observation_space, inner.action_space) == (
        env.observation_space,
        env.action_space,
    )
    size = int(np.sum(getattr(env.action_space, "nvec", getattr(env.action_space, "n", 0))))
    assert inner.action_masks().shape == (size,)
    assert env.get_wrapper_attr("action_masks")().tolist() == inner.action_masks().tolist()


def test_maskable_ppo_learns_one_unit_per_step_and_keeps_the_limits() -> None:
    maskable = pytest.importorskip("sb3_contrib")
    devices = ["CPU", {"name": "GPU", "weight_share": 0.3}]
    env = gym.make("DevicePlacementPerUnitSim-v0", model="tiny", devices=devices)
    model = maskable.MaskablePPO("MultiInputPolicy", env, n_steps=16, batch_size=16, seed=0)
    model.learn(32)
    for seed in range(3):
        assert placement_gym.play_episode(env, model, deterministic=False, seed=seed)["feasible"]


def test_placement_env_is_the_environment_that_evaluates() -> None:
    env = gym.make("DevicePlacementPerUnitSim-v0", model="tiny")
    play_episode(env, [1] * 7)
    base = placement_gym.placement_env(env)
    assert type(base) is SimulatedEnv
    assert base.placement().units == env.unwrapped.placement().units  # type: ignore[attr-defined]
    assert set(base.placement().units.values()) == {"GPU"}


@pytest.mark.parametrize(
    "make", [lambda: DevicePlacementEnv(diamond_backend()), lambda: per_unit()]
)
def test_a_step_after_the_end_of_an_episode_warns(make: Any) -> None:
    env = make()
    action = 1 if isinstance(env, PerUnitEnv) else [1] * N_UNITS
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while not env.step(action)[2]:
            pass
    with pytest.warns(UserWarning, match=r"episode has ended.*reset\(\)"):
        assert env.step(action)[2]
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step(action)


@pytest.mark.parametrize("action", [-1, 2, [0, 1], [0]])
def test_an_action_that_is_not_a_device_index_is_refused(action: Any) -> None:
    env = per_unit()
    env.reset()
    with pytest.raises(ValueError, match="from 0 to 1"):
        env.step(action)


@pytest.mark.parametrize(
    ("argument", "remedy"),
    [
        ({"start": "worst"}, "'worst'.*one of best, best-single, first, random"),
        ({"start": "frist"}, "did you mean 'first'"),
        ({"reward": "speedup"}, "one of final, improvement, saving, not 'speedup'"),
        ({"reward": "improvment"}, "did you mean 'improvement'"),
    ],
)
def test_unknown_start_and_reward_are_refused(argument: dict[str, Any], remedy: str) -> None:
    with pytest.raises(UserError, match=remedy):
        per_unit(**argument)


def test_every_argument_goes_through_make() -> None:
    own = {"start": "random", "reward": "final", "final_reward": "inverse_latency"}
    env = gym.make("DevicePlacementPerUnitSim-v0", model="tiny", max_nodes=9, **own)
    rewards, observations, infos = play_episode(env, [0] * 7, seed=0)
    assert observations[0]["placement"].any()
    assert rewards[:-1] == [0.0] * 6
    assert rewards[-1] == pytest.approx(1e3 / infos[-1]["latency_ms"])
    assert observations[0]["visited"].shape == (9,)


def test_a_seed_forgets_the_best_placement() -> None:
    env = per_unit(start="best")
    play_episode(env, [1, 1, 1, 1])
    assert env.best is not None
    observation, _ = env.reset(seed=0)
    assert placed(observation).tolist() == [0] * N_UNITS
