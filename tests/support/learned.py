# White-box tests of agents.common
"""Environments and weights for tests of learned agents."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

import agents
from agents.common import REINFORCE, PlacementVecEnv
from agents.common.reinforce import SETTINGS_OF_THE_USER
from agents.gdp import make as make_go
from agents.gdp import make_reinforce as make_go_reinforce
from agents.hsdag import HSDAGPolicy
from placement_gym.envs import DevicePlacementEnv, PlacementVectorEnv, placement_env
from placement_gym.solvers import minimum_cut

SIMULATED = "placement_gym:DevicePlacementSim-v0"
PER_UNIT = "placement_gym:DevicePlacementPerUnitSim-v0"
SMALL_GO = {"hidden": 16, "layers": 1, "rounds": 1, "segment": 4, "memory": 2}
TWO_MODELS = {"max_nodes": 80, "max_edges": 120}


def simulated(model: str = "tiny", **kwargs: Any) -> DevicePlacementEnv:
    return placement_env(gym.make(SIMULATED, model=model, **kwargs))


def several(*models: str, **kwargs: Any) -> DummyVecEnv:
    """One environment per model, with common padding."""
    return DummyVecEnv(
        [lambda model=model: simulated(model, **TWO_MODELS, **kwargs) for model in models]
    )


def first_observation(env: VecEnv) -> dict[str, torch.Tensor]:
    """Reset environments, and return what a policy sees."""
    observations: dict[str, torch.Tensor] = obs_as_tensor(env.reset(), torch.device("cpu"))
    return observations


def weights(model: BaseAlgorithm) -> torch.Tensor:
    """All weights of a model's policy as one vector."""
    return torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach().clone()


@contextmanager
def two_threads() -> Iterator[None]:
    """Two threads by torch's own choice, not by the user's."""
    before, kept = torch.get_num_threads(), dict(os.environ)
    for name in SETTINGS_OF_THE_USER:
        kept.pop(name, None)
    torch.set_num_threads(2)
    try:
        with mock.patch.dict(os.environ, kept, clear=True):
            yield
    finally:
        torch.set_num_threads(before)


def optimal_speedup() -> float:
    """That of the toy's best placement."""
    env = simulated()
    best = minimum_cut(env.problem.units, env.cost_table()).assignment
    return env.backend.evaluate(best).speedup


def mean_return(model: Any) -> float:
    """Mean return of the last 100 episodes of a training."""
    return float(np.mean([info["r"] for info in model.ep_info_buffer]))


def vectorize_toy(n: int = 4, horizon: int = 1, **kwargs: Any) -> PlacementVecEnv:
    envs = PlacementVectorEnv(simulated(**kwargs), n, horizon=horizon, observe_graph=False)
    return PlacementVecEnv(envs)


def hsdag(env: PlacementVecEnv, **kwargs: Any) -> REINFORCE:
    policy = {"graphs": env.get_attr("graph_table")[0](), "hidden": 16, "cost_weight": 0.0}
    settings = {"n_steps": 1, "seed": 0, "device": "cpu", **kwargs}
    return REINFORCE(HSDAGPolicy, env, policy_kwargs=policy, **settings)


MAKERS = {"ppo": make_go, "reinforce": make_go_reinforce}
"""GO's algorithms."""


def small_go(env: Any = None, make: Any = make_go, **kwargs: Any) -> Any:
    """GO with a small network, by default on the toy and with its PPO."""
    policy = {**SMALL_GO, **kwargs.pop("policy", {})}
    return make(simulated() if env is None else env, 0, policy=policy, **kwargs)


Steps = list[tuple[Any, str]]
"""Classes or modules, and names of their functions."""


def count_calls(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of each step from now on."""
    counts: Counter[str] = Counter()

    def counted(key: str, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[key] += 1
            return function(*args, **kwargs)

        return call

    for home, name in steps:
        key = f"{home.__name__}.{name}"
        monkeypatch.setattr(home, name, counted(key, getattr(home, name)))
    return counts


def read_table(name: str) -> dict[str, list[str]]:
    """Rows of an agent's table of numbers: both presets' values, and the source."""
    with (Path(agents.__file__).parent / name / "numbers.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    return {row[0]: row[1:] for row in rows}
