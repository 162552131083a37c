"""The agents that learn nothing."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import agents
from agents import static
from placement_gym.base.errors import UserError
from placement_gym.bench.run.agents import load_agent
from placement_gym.envs.placement_env import placement_env
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.problem import patterns

SEARCHES = ("random", "random-blocks", "prefix", "window")
SIMULATED = ("DevicePlacementSim-v0", "DevicePlacementPerUnitSim-v0")


def simulated(env_id: str = SIMULATED[0], **kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(f"placement_gym:{env_id}", model="tiny", **kwargs)


@pytest.mark.parametrize("env_id", SIMULATED)
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_predicts_the_fastest_placement_it_tried(name: str, env_id: str) -> None:
    env = simulated(env_id)
    agent = load_agent(name)(env, seed=3)
    agent.learn(20)
    tried = list(agent.proposals(20))
    backend = placement_env(env).backend
    assert backend.evaluate(agent.assignment).speedup == pytest.approx(agent.best_speedup)
    if name in ("prefix", "window"):
        assert agent.best_speedup == max(backend.evaluate(t).speedup for t in tried)


@pytest.mark.parametrize("name", ["random", "random-blocks"])
def test_equal_seeds_try_equal_placements(name: str) -> None:
    env = simulated()
    draws = [[p.tolist() for p in load_agent(name)(env, seed).proposals(5)] for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("name", ["prefix", "window"])
def test_structured_searches_keep_the_budget_and_mix_devices(name: str) -> None:
    agent = load_agent(name)(simulated(), seed=0)
    for budget in (2, 5, 12):
        tried = [tuple(p) for p in agent.proposals(budget)]
        assert 1 <= len(tried) <= budget
        assert all(len(set(placement)) == 2 for placement in tried)


def test_blocks_are_few_contiguous_runs() -> None:
    env = gym.make("placement_gym:DevicePlacementSim-v0", model="inception")
    for placement in load_agent("random-blocks")(env, seed=0).proposals(30):
        assert np.count_nonzero(np.diff(placement)) < patterns.MAX_RUNS


def test_a_window_does_not_try_what_memory_forbids() -> None:
    devices = [DeviceSpec("CPU").to_json(), DeviceSpec("GPU", weight_share=0.3).to_json()]
    env = gym.make("placement_gym:DevicePlacementSim-v0", model="resnet", devices=devices)
    problem = placement_env(env).problem
    tried = list(load_agent("window")(env, seed=0).proposals(15))
    assert tried
    assert not any(problem.infeasibility(placement) for placement in tried)


def test_window_leaves_the_rest_on_a_device_that_holds_the_model() -> None:
    devices = ["CPU", "GPU.0", {"name": "GPU.1", "weight_share": 0.3}]
    env = gym.make("placement_gym:DevicePlacementSim-v0", model="resnet", devices=devices)
    tried = np.stack(list(load_agent("window")(env, seed=0).proposals(15)))
    assert set(np.unique(tried)) == {0, 1}


def test_a_single_device_takes_everything() -> None:
    env = simulated()
    env.reset()
    chosen = {name: static.single_device(env, 0, name) for name in ("CPU", "GPU")}
    for index, agent in enumerate(chosen.values()):
        assert set(agent.assignment) == {index}
    assert set(static.single_device(env, 0).assignment) == {1}


def test_an_unknown_single_device_is_refused() -> None:
    with pytest.raises(ValueError, match="CPU"):
        static.single_device(simulated(), 0, "TPU")


def test_openvinos_own_choice_needs_openvino() -> None:
    with pytest.raises(UserError, match="use the agent single-device"):
        static.openvino_hetero(simulated(), 0)


def test_openvino_gives_everything_to_its_first_cpu() -> None:
    options = {"model": "tiny", "devices": "cpu-testbed", "isolate": False}
    env = gym.make("placement_gym:DevicePlacement-v0", **options)
    for name in ("openvino-hetero", "openvino-auto"):
        assert set(load_agent(name)(env, seed=0).assignment) == {0}


@pytest.mark.parametrize("env_id", SIMULATED)
def test_agents_work_with_stable_baselines_evaluation(env_id: str) -> None:
    env = simulated(env_id, reward="log_speedup" if env_id == SIMULATED[0] else "final")
    best = static.single_device(env, 0, "GPU")
    reward, spread = evaluate_policy(best, Monitor(env), n_eval_episodes=3)
    info_speedup = placement_env(env).singles.fastest().speedup
    assert reward == pytest.approx(np.log(info_speedup))
    assert spread == 0.0


def test_actions_cover_padding() -> None:
    env = simulated(max_nodes=12, max_edges=20)
    observation, _ = env.reset()
    action, _ = static.single_device(env, 0, "GPU").predict(observation)
    assert env.action_space.contains(action)


def test_unsupported_units_go_to_the_reference_device() -> None:
    env = simulated()
    problem = placement_env(env).problem
    problem.supported[2, 1] = False
    for name in SEARCHES:
        for placement in load_agent(name)(env, seed=0).proposals(20):
            assert placement[2] == 0


def test_agents_are_made_by_name_with_their_options() -> None:
    env = simulated()
    assert agents.make("prefix", env).predict(env.reset(seed=0)[0])[0].shape == (7,)
    assert agents.make("search", env, seconds=2.0).seconds == 2.0
    with pytest.raises(UserError, match="did you mean 'annealing'"):
        agents.make("anealing", env)
