"""The agents of the path-load program and of beams."""

from __future__ import annotations

import gymnasium as gym
import pytest
from published import DATA

from agents import beam
from agents.path_load import make
from placement_gym.env import placement_env

LIST = {"schedule": {"preset": "list", "order": "priority"}}


def published(devices: str = "1cpu+2acc@0.3") -> gym.Env:  # type: ignore[type-arg]
    path = DATA / "latency-inputs/LayerGraphs/bert24_inference.json"
    return gym.make("placement_gym:DevicePlacementSim-v0", model=str(path), devices=devices, **LIST)


def test_it_predicts_a_good_placement_without_evaluations() -> None:
    env = published()
    agent = make(env, 0, time_limit_s=20.0, max_nodes=200)
    found = placement_env(env).backend.evaluate(agent.assignment)
    assert agent.evaluations == 0
    assert found.feasible
    assert found.latency_ms < 300.0


def test_evaluations_improve_it() -> None:
    env = published()
    backend = placement_env(env).backend
    agent = make(env, 0, time_limit_s=20.0, max_nodes=1)
    before = backend.evaluate(agent.assignment).latency_ms
    agent.learn(200)
    assert agent.evaluations == 200
    assert backend.evaluate(agent.assignment).latency_ms <= before


def test_without_time_it_searches_from_the_heuristics() -> None:
    env = published()
    agent = make(env, 0, time_limit_s=0.0).learn(50)
    assert placement_env(env).backend.evaluate(agent.assignment).feasible


@pytest.mark.parametrize("devices", [["CPU"], ["CPU", "GPU"]])
def test_it_survives_one_device(devices: list[str]) -> None:
    env = gym.make("placement_gym:DevicePlacementSim-v0", model="tiny", devices=devices)
    agent = make(env, 0, time_limit_s=5.0).learn(10)
    assert env.action_space.contains(agent.predict(env.reset(seed=0)[0])[0])


def test_a_beam_predicts_the_optimum_of_a_small_workload() -> None:
    env = published()
    agent = beam.make(env, 0, width=2_000)
    found = placement_env(env).backend.evaluate(agent.assignment)
    assert agent.evaluations == 0
    assert found.latency_ms == pytest.approx(287.221, rel=1e-5)


@pytest.mark.parametrize(
    ("model", "devices"), [("tiny", ["CPU"]), ("synthetic-layered-1100", ["CPU", "GPU"])]
)
def test_a_beam_survives_one_device_and_large_graphs(model: str, devices: list[str]) -> None:
    env = gym.make("placement_gym:DevicePlacementSim-v0", model=model, devices=devices)
    agent = beam.make(env, 0, width=10).learn(5)
    assert env.action_space.contains(agent.predict(env.reset(seed=0)[0])[0])
