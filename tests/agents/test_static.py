"""Fixed placements, and searches that propose placements from a list."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from learned import PER_UNIT, SIMULATED
from named_agents import record_evaluations
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from agents import static
from placement_gym.base import UserError
from placement_gym.bench.run import load_agent
from placement_gym.envs import placement_env
from placement_gym.problem import patterns


def environment(model: str = "tiny", **kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(SIMULATED, model=model, **kwargs)


@pytest.mark.parametrize("name", ["prefix", "window"])
def test_structured_searches_keep_the_budget_and_mix_devices(name: str) -> None:
    agent = load_agent(name)(environment(), seed=0)
    for budget in (2, 5, 12):
        tried = [tuple(p) for p in agent.proposals(budget)]
        assert 1 <= len(tried) <= budget
        assert all(len(set(placement)) == 2 for placement in tried)


def test_blocks_are_few_contiguous_runs() -> None:
    for placement in load_agent("random-blocks")(environment("inception"), seed=0).proposals(30):
        assert np.count_nonzero(np.diff(placement)) < patterns.MAX_RUNS


def test_a_window_does_not_try_what_memory_forbids() -> None:
    env = environment("resnet", devices=["CPU", {"name": "GPU", "weight_share": 0.3}])
    problem = placement_env(env).problem
    tried = list(load_agent("window")(env, seed=0).proposals(15))
    assert tried
    assert not any(problem.infeasibility(placement) for placement in tried)


def test_window_leaves_the_rest_on_a_device_that_holds_the_model() -> None:
    devices = ["CPU", "GPU.0", {"name": "GPU.1", "weight_share": 0.3}]
    env = environment("resnet", devices=devices)
    tried = np.stack(list(load_agent("window")(env, seed=0).proposals(15)))
    assert set(np.unique(tried)) == {0, 1}


def test_a_single_device_takes_everything_and_is_by_default_the_fastest() -> None:
    env = environment()
    for device, index in (("CPU", 0), ("GPU", 1), (None, 1)):
        assert set(static.single_device(env, 0, device).assignment) == {index}
    with pytest.raises(ValueError, match="CPU"):
        static.single_device(env, 0, "TPU")


def test_a_saved_placement_needs_a_file() -> None:
    with pytest.raises(UserError, match="needs a placement file"):
        static.saved(environment(), 0)


def test_openvinos_own_choice_needs_openvino_and_is_its_first_cpu() -> None:
    with pytest.raises(UserError, match="use the agent single-device"):
        static.openvino_hetero(environment(), 0)
    options = {"model": "tiny", "devices": "cpu-testbed", "isolate": False}
    env = gym.make("placement_gym:DevicePlacement-v0", **options)
    for name in ("openvino-hetero", "openvino-auto"):
        assert set(load_agent(name)(env, seed=0).assignment) == {0}


@pytest.mark.parametrize("env_id", [SIMULATED, PER_UNIT])
def test_agents_work_with_the_evaluation_of_stable_baselines(env_id: str) -> None:
    reward = "log_speedup" if env_id == SIMULATED else "final"
    env = gym.make(env_id, model="tiny", reward=reward)
    best = static.single_device(env, 0, "GPU")
    reached, spread = evaluate_policy(best, Monitor(env), n_eval_episodes=3)
    assert reached == pytest.approx(np.log(placement_env(env).singles.fastest().speedup))
    assert spread == 0.0


@pytest.mark.parametrize("name", ["random", "random-blocks", "prefix", "window"])
def test_proposals_are_evaluated_in_their_order(name: str) -> None:
    env = environment()
    counted, agent = record_evaluations(placement_env(env)), load_agent(name)(env, seed=3)
    agent.learn(12)
    again = list(load_agent(name)(env, seed=3).proposals(12))
    assert [one.assignment.tolist() for one in counted.history] == [one.tolist() for one in again]


def test_a_known_placement_cannot_be_played_from_flat_observations() -> None:
    env = gym.make(PER_UNIT, model="tiny", observe="flat")
    with pytest.raises(UserError, match="observe='flat'"):
        static.prefix(env, 0).learn(1)
