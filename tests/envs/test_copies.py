"""Environments can be pickled: copies go on as the original."""

from __future__ import annotations

import pickle

import cloudpickle
import gymnasium as gym
import pytest

from envs_registry import ENVS
from placement_gym import UserError
from placement_gym.models import load

SIMULATED = [env["id"] for env in ENVS if "Sim" in env["id"]]


@pytest.mark.parametrize("env_id", SIMULATED)
@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_a_copy_of_a_simulated_env_takes_equal_steps(env_id: str, pickler: object) -> None:
    env = gym.make(env_id, model="tiny", noise=0.1, devices="cpu+igpu")
    env.reset(seed=3)
    copy = pickle.loads(pickler.dumps(env))  # type: ignore[attr-defined]
    env.action_space.seed(3)
    for _ in range(3):
        action = env.action_space.sample()
        one, other = env.step(action), copy.step(action)
        assert one[1] == other[1]
        assert one[4]["latency_ms"] == other[4]["latency_ms"]


def test_a_copy_of_a_measured_env_starts_a_worker_of_its_own() -> None:
    options = {"devices": "cpu-testbed", "warmup": 0, "repeats": 2}
    with gym.make("DevicePlacementPerUnit-v0", model=load("tiny"), **options) as env:
        env.reset(seed=0)
        with pickle.loads(pickle.dumps(env)) as copy:
            copy.reset(seed=0)
            assert copy.step(env.action_space.sample())[4]["latency_ms"] > 0
        assert env.step(env.action_space.sample())[4]["latency_ms"] > 0


@pytest.mark.parametrize("env_id", SIMULATED)
def test_an_env_of_a_model_in_memory_can_be_pickled(env_id: str) -> None:
    with gym.make(env_id, model=load("tiny"), devices="cpu+igpu") as env:
        content = pickle.dumps(env)
    with pickle.loads(content) as copy:
        copy.reset(seed=0)
        assert copy.step(copy.action_space.sample())[4]["latency_ms"] > 0
        model = copy.spec.kwargs["model"]
    assert [node.get_friendly_name() for node in model.get_ordered_ops()] == [
        node.get_friendly_name() for node in load("tiny").get_ordered_ops()
    ]


def test_an_env_that_measures_in_this_process_says_how_to_pickle() -> None:
    options = {"devices": "cpu-testbed", "isolate": False}
    with (
        gym.make("DevicePlacement-v0", model="tiny", **options) as env,
        pytest.raises(UserError, match="isolate=True"),
    ):
        pickle.dumps(env)
