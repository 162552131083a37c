"""Zero-shot Placeto: trained on some graphs, evaluated on another one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import gymnasium as gym
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from agents.common.fixed import Fixed
from agents.common.threads import limit_threads
from agents.placeto.policy import PlacetoPolicy
from agents.placeto.unevaluated import play_unevaluated_episode
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.errors import UserError

MAX_POLICIES = 8
SETTINGS: dict[str, Any] = {
    "n_steps": 64,
    "batch_size": 160,
    "n_epochs": 5,
    "gamma": 0.98,
    "learning_rate": 1e-3,
    "ent_coef": 0.1,
}
"""Arguments of PPO, which learns more from each placement than REINFORCE."""


class ZeroShot:
    """Predicts the final placement of a trained policy's episode, without evaluating any placement.

    Args:
        policy: A policy trained on environments with the padding of ``env``.
        env: The environment to predict for.
    """

    def __init__(self, policy: PlacetoPolicy, env: DevicePlacementEnv) -> None:
        self.policy, self.env = policy, env
        policy.add_graphs(env.graph_table())

    def predict(
        self,
        observation: dict[str, NDArray[Any]],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]:
        """The current unit's device, or all units' devices."""
        assignment = play_unevaluated_episode(self.policy, self.env, deterministic)
        return Fixed(assignment).predict(observation, state)


def make(
    env: gym.Env[Any, Any],
    seed: int,
    train_on: Sequence[str],
    evaluations: int = 20_000,
    max_nodes: int = 128,
    max_edges: int = 256,
    **settings: Any,
) -> ZeroShot:
    """Train Placeto on other models, in environments that are otherwise like ``env``.

    The result has no ``learn``: on ``env`` itself only its prediction is evaluated. The evaluations
    of the training do not count against the budget; ``evaluations`` limits them.

    Args:
        env: A simulated environment made by ``gym.make``.
        seed: Seed of all random numbers.
        train_on: Models to train on; the model of ``env`` must not be among them.
        evaluations: Maximum number of placements evaluated in training.
        max_nodes: Maximum number of units of all models.
        max_edges: Maximum number of edges of all models.
        settings: Arguments of PPO that override ``SETTINGS``.

    Raises:
        ValueError: The model of ``env`` is one that it is to be trained on, or has too many units.
    """
    assert env.spec is not None
    kwargs = {key: value for key, value in env.spec.kwargs.items() if key != "render_mode"}
    model = kwargs.pop("model")
    if model in train_on:
        raise UserError(f"train_on holds the model to place, {model!r}: leave it out")
    sizes = {"max_nodes": max_nodes, "max_edges": max_edges, "observe_graph": False}
    like = json.dumps(kwargs | sizes | {"reward": "improvement"})
    policy = train_policy(tuple(train_on), like, evaluations, seed, json.dumps(settings))
    base = copy(placement_env(env))
    base.observer = replace(base.observer, max_nodes=max_nodes, max_edges=max_edges, graph=False)
    base.observation_space = base.observer.space()
    return ZeroShot(policy, base)


@lru_cache(maxsize=MAX_POLICIES)
def train_policy(
    models: tuple[str, ...], like: str, evaluations: int, seed: int, settings: str
) -> PlacetoPolicy:
    """Train a policy on these models, with arguments of environment and PPO in JSON."""
    kwargs = json.loads(like)
    envs = [
        gym.make("placement_gym:DevicePlacementPerUnitSim-v0", model=model, **kwargs)
        for model in models
    ]
    graphs = {key: table for env in envs for key, table in placement_env(env).graph_table().items()}
    model = PPO(
        PlacetoPolicy,
        DummyVecEnv([lambda env=env: env for env in envs]),  # type: ignore[misc]
        policy_kwargs={"graphs": graphs},
        seed=seed,
        device="cpu",
        **SETTINGS | json.loads(settings),
    )
    rollout = model.n_steps * len(envs)
    with limit_threads(model.observation_space):
        model.learn(evaluations - evaluations % rollout)
    policy = model.policy
    assert isinstance(policy, PlacetoPolicy)
    return policy
