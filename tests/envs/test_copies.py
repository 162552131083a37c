"""Environments can be copied and pickled at any moment: copies go on as the original."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import cloudpickle
import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import data_equivalence

from envs_registry import ENVS
from placement_gym.base import UserError
from placement_gym.models import load_model

SIMULATED = [env["id"] for env in ENVS if "Sim" in env["id"]]


KWARGS: dict[str, dict[str, Any]] = {
    "DevicePlacementStream-v0": {"n_problems": 2, "sizes": (50, 100)},
    "DevicePlacementOnline-v0": {"models": ["tiny", "cnn:2"]},
}
"""Of ids that do not place one model."""
COPIERS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: cloudpickle.loads(cloudpickle.dumps(env)),
    "deepcopy": deepcopy,
}


def play(env: gym.Env[Any, Any], n_steps: int) -> list[Any]:
    """The results of steps, in episodes that follow each other."""
    results = []
    for _ in range(n_steps):
        results.append(env.step(env.action_space.sample()))
        if results[-1][2] or results[-1][3]:
            results.append(env.reset())
    return results


@pytest.mark.parametrize("env_id", [env["id"] for env in ENVS if "nondeterministic" not in env])
@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("moment", ["made", "reset", "stepped"])
def test_a_copy_plays_as_the_original_does(env_id: str, copier: str, moment: str) -> None:
    one_model = {"model": "tiny", "noise": 0.1, "devices": "cpu+igpu"}
    env = gym.make(env_id, **KWARGS.get(env_id, one_model))
    env.action_space.seed(3)
    if moment != "made":
        env.reset(seed=3)
    if moment == "stepped":
        play(env, 2)
    copy = COPIERS[copier](env)
    if moment == "made":
        env.reset(seed=3), copy.reset(seed=3)
    assert data_equivalence(play(env, 3), play(copy, 3))


def test_a_copy_of_a_measured_env_starts_a_worker_of_its_own() -> None:
    options = {"devices": "cpu-testbed", "warmup": 0, "repeats": 2}
    with gym.make("DevicePlacementPerUnit-v0", model=load_model("tiny"), **options) as env:
        env.reset(seed=0)
        with pickle.loads(pickle.dumps(env)) as copy:
            copy.reset(seed=0)
            assert copy.step(env.action_space.sample())[4]["latency_ms"] > 0
        assert env.step(env.action_space.sample())[4]["latency_ms"] > 0


@pytest.mark.parametrize("env_id", SIMULATED)
def test_an_env_of_a_model_in_memory_can_be_pickled(env_id: str) -> None:
    with gym.make(env_id, model=load_model("tiny"), devices="cpu+igpu") as env:
        content = pickle.dumps(env)
    with pickle.loads(content) as copy:
        copy.reset(seed=0)
        assert copy.step(copy.action_space.sample())[4]["latency_ms"] > 0
        model = copy.spec.kwargs["model"]
    assert [node.get_friendly_name() for node in model.get_ordered_ops()] == [
        node.get_friendly_name() for node in load_model("tiny").get_ordered_ops()
    ]


def test_an_env_that_measures_in_this_process_says_how_to_pickle() -> None:
    options = {"devices": "cpu-testbed", "isolate": False}
    with (
        gym.make("DevicePlacement-v0", model="tiny", **options) as env,
        pytest.raises(UserError, match="isolate=True"),
    ):
        pickle.dumps(env)
