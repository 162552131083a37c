"""Drawn groups as an agent of the benchmark, and its training across problems."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.reinforce import REINFORCE
from agents.common.sampled_env import make_training_envs
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.graph_groups.policy import GraphGroupsPolicy
from agents.search.starts import NOTHING, begin
from placement_gym.envs.placement_env import placement_env

SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "n_steps": 1,
    "min_spread": 0.05,
    "max_grad_norm": inf,
    "device": "cpu",
}
"""Arguments of REINFORCE."""
ADAM = {"betas": (0.5, 0.999)}
TRAINER: dict[str, Any] = {"learning_rate": 1e-3, "min_spread": 0.05, "max_grad_norm": 1.0}
"""Arguments of REINFORCE across problems."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    begin_with: str = NOTHING,
    weights: str | Path | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make REINFORCE with ``GraphGroupsPolicy``, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        policy: Options of ``GraphGroupsPolicy``.
        envs: Arguments of ``PlacementVectorEnv`` that override 20 placements at once.
        begin_with: What is evaluated first: ``"nothing"``, ``"heuristics"`` or ``"search"``, see
            ``agents.search.starts``.
        weights: What the policy begins with: a file of ``agents.save_weights``; None is random.
        settings: Arguments of ``REINFORCE`` that override ``SETTINGS``, as ``redraw``.

    Raises:
        UserError: An argument is unknown or out of range.
    """
    sees = bool((policy or {}).get("devices"))
    graphs = placement_env(env).graph_table(devices=True if sees else None)
    model = REINFORCE(
        GraphGroupsPolicy,
        vectorize(env, **{"num_envs": 20, **(envs or {})}),
        policy_kwargs={"graphs": graphs, "optimizer_kwargs": ADAM, **(policy or {})},
        seed=seed,
        **SETTINGS | settings,
    )
    begin(model.policy, env, begin_with, seed)
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model


def make_trainer(
    seed: int = 0,
    problems: int = 8,
    episodes: int = 8,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make REINFORCE on problems of the split ``train``; ``learn`` then draws them.

    The network alone learns: a graph gets a table only where it is adapted to, by ``make`` with
    ``weights``. Both need environments with the same ``max_devices``.

    Args:
        seed: Of weights and problems.
        problems: Of an update.
        episodes: Placements of each, at least two, which are compared with each other.
        policy: Options of ``GraphGroupsPolicy`` that override ``devices=True``.
        envs: Arguments of ``SampledProblemEnv``, as ``draw``.
        settings: Arguments of ``REINFORCE`` that override ``TRAINER``.

    Raises:
        UserError: There are fewer episodes.
    """
    return REINFORCE(
        GraphGroupsPolicy,
        make_training_envs(problems, episodes, **envs or {}),
        n_steps=episodes,
        seed=seed,
        device="cpu",
        policy_kwargs={"devices": True, **(policy or {})},
        **TRAINER | settings,
    )
