"""Policies and algorithms by name, and learners that the toy suffices for."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import gymnasium as gym
import pytest
from learned import PER_UNIT, SIMULATED, mean_return, simulated
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import ConvertCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

from agents.common import REINFORCE, vectorize
from agents.gdp import GCNPolicy, GOPolicy
from agents.graph_groups import GraphGroupsPolicy
from agents.hsdag import HSDAGPolicy
from agents.logits import LogitsPolicy
from agents.placeto import PlacetoPolicy
from agents.post import Post
from agents.rnn import HDPPolicy, RNNPolicy

RECURRENT = {"hidden": 32, "decoder": 64, "attention": 16}
POLICIES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "hsdag": (HSDAGPolicy, {"hidden": 32}),
    "graph-groups": (GraphGroupsPolicy, {"hidden": 32}),
    "placeto": (PlacetoPolicy, {"rounds": 8}),
    "rnn": (RNNPolicy, RECURRENT),
    "hdp": (HDPPolicy, RECURRENT),
    "gdp": (GOPolicy, {"hidden": 32, "layers": 1, "rounds": 2, "segment": 4, "devices": False}),
    "gcn": (GCNPolicy, {"hidden": 32}),
    "logits": (LogitsPolicy, {}),
}
"""Classes of policies, and small networks, by the agent that is made of them."""
NETWORKS = [name for name in POLICIES if name != "logits"]
STEPS: dict[tuple[str, type[Any]], int] = {
    ("placeto", REINFORCE): 10_000,
    ("placeto", PPO): 6_000,
    ("rnn", REINFORCE): 3_000,
    ("rnn", PPO): 3_000,
    ("hdp", REINFORCE): 8_000,
    ("hdp", PPO): 4_000,
    ("gdp", REINFORCE): 3_000,
    ("gdp", PPO): 3_000,
    ("logits", Post): 4_000,
}
"""Placements from which the toy's optimum is learned; HSDAG begins near it, see its own tests."""
MISS = {("gdp", PPO): 0.05}
"""Shares by which the answer may miss it: SB3's PPO clips one ratio for the whole placement."""
FEW_STEPS = 300
"""Steps of which the first returns are."""


def env_of(name: str, model: str = "tiny", **kwargs: Any) -> gym.Env[Any, Any]:
    """An environment of the policy's kind."""
    return gym.make(PER_UNIT if name == "placeto" else SIMULATED, model=model, **kwargs)


def toy(name: str) -> VecEnv:
    """Many toys at once."""
    if name == "placeto":
        return make_vec_env(PER_UNIT, n_envs=20, env_kwargs={"model": "tiny"})
    return vectorize(simulated(), num_envs=50)


def falling(first: float, remaining: float) -> float:
    return first * remaining


def learner(name: str, algorithm: type[Any]) -> Any:
    """A learner that the toy suffices for."""
    env, by_unit = toy(name), name == "placeto"
    settings: dict[str, Any] = {"learning_rate": 3e-3, "n_steps": 7 if by_unit else 1}
    if algorithm is Post:
        settings |= {"learning_rate": 1e-2}
    elif algorithm is PPO:
        rows, gamma = (140, 1.0) if by_unit else (50, 0.0)
        settings |= {"learning_rate": 1e-3, "n_steps": 2 * settings["n_steps"], "n_epochs": 4}
        settings |= {"batch_size": rows, "ent_coef": 0.1, "gamma": gamma}
    elif algorithm is REINFORCE:
        settings |= {"ent_coef": partial(falling, 1.0)}
        settings |= {"baseline": "per_step"} if by_unit else {}
    policy, kwargs = POLICIES[name]
    if not by_unit:
        kwargs = {**kwargs, "graphs": env.get_attr("graph_table")[0]()}
    return algorithm(policy, env, policy_kwargs=kwargs, seed=0, device="cpu", **settings)


class Trained(NamedTuple):
    """A model that was trained; tests share it and do not change it.

    Attributes:
        model: The model.
        first_return: Mean return of the first few steps.
        last_return: Mean return of the last 100 episodes.
        silent: Names of the parameters that never received a gradient.
    """

    model: Any
    first_return: float
    last_return: float
    silent: set[str]


@cache
def train(name: str, algorithm: type[Any], steps: int) -> Trained:
    model, returns = learner(name, algorithm), []
    silent = set(dict(model.policy.named_parameters()))
    for key, parameter in model.policy.named_parameters():
        parameter.register_hook(lambda g, key=key: silent.discard(key) if g.any() else None)

    def record(*_: Any) -> bool:
        if model.num_timesteps >= FEW_STEPS and not returns:
            returns.append(mean_return(model))
        return True

    model.learn(steps, ConvertCallback(record))
    return Trained(model, returns[0], mean_return(model), silent)


def rollout(algorithm: type[Any], name: str, env: Any = None, **options: Any) -> Any:
    """A model, by default on one toy, whose rollouts have 8 steps, Post's 10."""
    settings: dict[str, Any] = {"n_steps": 10 if algorithm is Post else 8, "seed": 1}
    if algorithm in (PPO, MaskablePPO):
        settings |= {"batch_size": 8, "n_epochs": 1}
    policy, kwargs = POLICIES[name]
    kwargs = {**kwargs, **options}
    env = env_of(name) if env is None else env
    return algorithm(policy, env, policy_kwargs=kwargs, device="cpu", **settings)


def is_long(name: str, algorithm: type[Any]) -> bool:
    """Whether the toy's optimum takes long to learn, so that other tests train a while."""
    return (name, algorithm) in STEPS and algorithm is not Post


def cases(rows: Any, slow: Any) -> list[Any]:
    """Rows of parameters, those for which ``slow(*row)`` holds in the slow tests."""
    return [pytest.param(*one, marks=[pytest.mark.slow] if slow(*one) else []) for one in rows]


def trained(name: str, algorithm: type[Any], wholly: bool = False) -> Trained:
    """A trained model, by default for a while, unless it learns the optimum quickly."""
    few = (name, algorithm) not in STEPS or (is_long(name, algorithm) and not wholly)
    return train(name, algorithm, FEW_STEPS if few else STEPS[name, algorithm])
