"""Zero-shot Placeto: trained on some graphs, evaluated on another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import gymnasium as gym
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from agents.common import limit_threads, silence
from agents.placeto.episodes import DryRun, without_graph
from agents.placeto.policy import PlacetoPolicy
from placement_gym.base import UserError
from placement_gym.envs import PerUnitEnv, placement_env, read_current_unit

MAX_POLICIES = 8
N_STEPS = 64
"""Steps of each model's environment in a rollout of PPO."""


class ZeroShot:
    """Predicts the final placement of a trained policy's episode, without evaluations.

    Args:
        policy: A policy that was trained on environments with the padding of ``env``.
        env: The environment to predict for, of all units or of one unit per step.
    """

    def __init__(self, policy: PlacetoPolicy, env: gym.Env[Any, Any]) -> None:
        self.policy, base = policy, placement_env(env)
        self.dry_run = DryRun.from_env(base)
        policy.add_graphs(base.graph_table(policy.reads_devices(asdict(policy.options))))

    def predict(
        self,
        observation: dict[str, NDArray[Any]],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]:
        """The current unit's device, or the devices of (N,) or (B, N) units."""
        if "current_unit" in observation:
            (assignment,) = self.dry_run.play(self.policy, deterministic)
            return assignment[read_current_unit(observation)[..., 0]], state
        return self.dry_run.place(self.policy, observation, deterministic), state


def make(
    env: gym.Env[Any, Any],
    seed: int,
    train_on: Sequence[str] = (),
    evaluations: int = 20_000,
    max_nodes: int = 128,
    max_edges: int = 256,
    policy: Mapping[str, Any] | None = None,
) -> ZeroShot:
    """Train Placeto on other models, in environments that are otherwise like ``env``.

    PPO trains it, which learns more from each placement than REINFORCE. The result has no
    ``learn``: on ``env`` only its prediction is evaluated. The training's evaluations do not count
    towards the budget.

    Args:
        env: A simulated environment made by ``gym.make``.
        seed: Seed of all random numbers.
        train_on: Models to train on, other than that of ``env``.
        evaluations: Maximum number of training steps, each of which evaluates a placement.
        max_nodes: Maximum number of units of all models.
        max_edges: Maximum number of edges of all models.
        policy: Arguments of ``PlacetoPolicy``, such as ``{"devices": True}``.

    Raises:
        UserError: There are no models to train on, the model of ``env`` is among them or a model
            has too many units; or ``evaluations`` is less than one rollout.
    """
    assert env.spec is not None
    if not train_on:
        raise UserError("placeto-transfer needs models to train on: train_on=['resnet', 'bert']")
    kwargs = {key: value for key, value in env.spec.kwargs.items() if key != "render_mode"}
    model = kwargs.pop("model")
    if model in train_on:
        raise UserError(f"train_on holds the model to place, {model!r}: leave it out")
    sizes = {"max_nodes": max_nodes, "max_edges": max_edges}
    like = json.dumps({**kwargs, **sizes, "observe_graph": False, "reward": "improvement"})
    options = json.dumps(dict(policy or {}))
    trained = train_policy(tuple(train_on), like, options, evaluations, seed)
    return ZeroShot(trained, without_graph(placement_env(env), **sizes))


@lru_cache(maxsize=MAX_POLICIES)
def train_policy(
    models: tuple[str, ...], like: str, options: str, evaluations: int, seed: int
) -> PlacetoPolicy:
    """Train a policy on these models; ``like`` and ``options`` are JSON, as keys of the cache."""
    name, kwargs = "placement_gym:DevicePlacementSim-v0", json.loads(like)
    envs = [PerUnitEnv(placement_env(gym.make(name, model=model, **kwargs))) for model in models]
    policy, graphs = json.loads(options), dict[int, Any]()
    reads_devices = PlacetoPolicy.reads_devices(policy)
    for env in envs:
        graphs |= env.base.graph_table(reads_devices)
    rollout = N_STEPS * len(envs)
    if evaluations < rollout:
        raise UserError(
            f"evaluations={evaluations} is less than one rollout of {rollout}, {N_STEPS} steps of "
            f"{len(envs)} models"
        )
    model = PPO(
        PlacetoPolicy,
        DummyVecEnv([lambda env=env: env for env in envs]),  # type: ignore[misc]
        learning_rate=1e-3,
        n_steps=N_STEPS,
        batch_size=min(160, rollout),
        n_epochs=5,
        gamma=0.98,
        ent_coef=0.1,
        policy_kwargs={"graphs": graphs, **policy},
        seed=seed,
        device="cpu",
    )
    silence(model)
    with limit_threads(model.observation_space):
        model.learn(evaluations - evaluations % rollout)
    trained = model.policy
    assert isinstance(trained, PlacetoPolicy)
    return trained
