"""Zero-shot Placeto: trained on some graphs, evaluated on another one."""

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


class ZeroShot:
    """Predicts the final placement of a trained policy's episode, without evaluating any placement.

    Args:
        policy: A policy trained on environments with the padding of ``env``.
        env: The environment to predict for, of either kind of step.
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
    learning_rate: float = 1e-3,
    n_steps: int = 64,
    batch_size: int = 160,
    n_epochs: int = 5,
    gamma: float = 0.98,
    ent_coef: float = 0.1,
) -> ZeroShot:
    """Train Placeto on other models, in environments that are otherwise like ``env``.

    By PPO, which learns more from each placement than REINFORCE. The result has no ``learn``: on
    ``env`` itself only its prediction is evaluated. The evaluations of the training do not count
    against the budget; ``evaluations`` limits those of its steps.

    Args:
        env: A simulated environment made by ``gym.make``.
        seed: Seed of all random numbers.
        train_on: Models to train on; the model of ``env`` must not be among them.
        evaluations: Maximum number of training steps, each of which evaluates a placement.
        max_nodes: Maximum number of units of all models.
        max_edges: Maximum number of edges of all models.
        policy: Arguments of ``PlacetoPolicy``, as ``{"devices": True}``.
        learning_rate: Of PPO, as the others below.
        n_steps: Steps of each model's environment per rollout.
        batch_size: Rows of a gradient step.
        n_epochs: Passes over each rollout.
        gamma: Discount factor.
        ent_coef: Weight of the entropy.

    Raises:
        UserError: No models to train on, or the model of ``env`` is one that it is to be trained
            on, or has too many units; or ``evaluations`` are fewer than one rollout.
    """
    assert env.spec is not None
    if not train_on:
        raise UserError("placeto-transfer needs models to train on: train_on=['resnet', 'bert']")
    kwargs = {key: value for key, value in env.spec.kwargs.items() if key != "render_mode"}
    model = kwargs.pop("model")
    if model in train_on:
        raise UserError(f"train_on holds the model to place, {model!r}: leave it out")
    sizes = {"max_nodes": max_nodes, "max_edges": max_edges, "observe_graph": False}
    like = json.dumps(kwargs | sizes | {"reward": "improvement"})
    settings = {
        "learning_rate": learning_rate,
        "n_steps": n_steps,
        "batch_size": batch_size,
        "n_epochs": n_epochs,
        "gamma": gamma,
        "ent_coef": ent_coef,
    }
    options = json.dumps({"settings": settings, "policy": dict(policy or {})})
    trained = train_policy(tuple(train_on), like, evaluations, seed, options)
    base = without_graph(placement_env(env), max_nodes=max_nodes, max_edges=max_edges)
    return ZeroShot(trained, base)


@lru_cache(maxsize=MAX_POLICIES)
def train_policy(
    models: tuple[str, ...], like: str, evaluations: int, seed: int, options_text: str
) -> PlacetoPolicy:
    """Train a policy on these models.

    Args:
        models: Names.
        like: Arguments of their environments in JSON.
        evaluations: Maximum number of steps.
        seed: Seed of all random numbers.
        options_text: ``settings`` of PPO, and arguments of the ``policy``, in JSON.
    """
    kwargs, options = json.loads(like), json.loads(options_text)
    name = "placement_gym:DevicePlacementSim-v0"
    envs = [PerUnitEnv(placement_env(gym.make(name, model=model, **kwargs))) for model in models]
    graphs = {
        key: table
        for env in envs
        for key, table in env.base.graph_table(
            PlacetoPolicy.reads_devices(options["policy"])
        ).items()
    }
    model = PPO(
        PlacetoPolicy,
        DummyVecEnv([lambda env=env: env for env in envs]),  # type: ignore[misc]
        policy_kwargs={"graphs": graphs, **options["policy"]},
        seed=seed,
        device="cpu",
        **options["settings"],
    )
    rollout = model.n_steps * len(envs)
    if evaluations < rollout:
        raise UserError(
            f"evaluations={evaluations} is less than one rollout of {rollout}, n_steps="
            f"{model.n_steps} of {len(envs)} models"
        )
    silence(model)
    with limit_threads(model.observation_space):
        model.learn(evaluations - evaluations % rollout)
    policy = model.policy
    assert isinstance(policy, PlacetoPolicy)
    return policy
