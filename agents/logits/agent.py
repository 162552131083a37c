"""Tables of logits as agents of the benchmark."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.logits import LogitsPolicy
from agents.common.reinforce import REINFORCE
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.options import hands_on_to
from agents.search.starts import NOTHING, begin
from placement_gym.envs.placement_env import placement_env

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.1,
    "n_steps": 1,
    "min_spread": 0.05,
    "max_grad_norm": inf,
    "device": "cpu",
}
"""Arguments of REINFORCE."""
ENVS: dict[str, Any] = {"num_envs": 20, "horizon": 1, "reward": "log_speedup"}
"""Arguments of ``PlacementVectorEnv``."""
ADAM = {"betas": (0.5, 0.999)}
"""Short memory of gradients: a rollout of twenty placements says most of what the last ones did."""
GROUPS = 30
"""Groups of the first placements."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    begin_with: str = NOTHING,
    weights: str | Path | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make plain REINFORCE with ``LogitsPolicy``, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        policy: Options of ``LogitsPolicy``.
        envs: Arguments of ``PlacementVectorEnv`` that override the defaults.
        begin_with: The first evaluations: ``"nothing"``, ``"heuristics"`` or ``"search"``, see
            ``agents.search.starts``.
        weights: Those that the policy begins with, of the same graph: a file of
            ``agents.save_weights``; None is uniform.
        settings: Arguments of ``REINFORCE`` that override the defaults, as ``imitate``.
    """
    chosen = policy or {}
    sees = chosen.get("cost_weight", 0.0) > 0.0
    graphs = placement_env(env).graph_table(devices=True if sees else None)
    model = REINFORCE(
        LogitsPolicy,
        vectorize(env, **ENVS | (envs or {})),
        policy_kwargs={"graphs": graphs, "optimizer_kwargs": ADAM, **chosen},
        seed=seed,
        **SETTINGS | settings,
    )
    begin(model.policy, env, begin_with, seed)
    if weights is not None:
        load_weights(model, weights)
    return model


@hands_on_to(make)
def make_multiscale(
    env: gym.Env[Any, Any], seed: int, policy: dict[str, Any] | None = None, **kwargs: Any
) -> REINFORCE:
    """Make the same with logits for runs of units of every size; see ``make``."""
    return make(env, seed, {"runs": True, **(policy or {})}, **kwargs)


@hands_on_to(make)
def make_groups(
    env: gym.Env[Any, Any], seed: int, policy: dict[str, Any] | None = None, **kwargs: Any
) -> REINFORCE:
    """Make the same with groups that are learned, too; see ``make``."""
    return make(env, seed, {"runs": True, "groups": GROUPS, **(policy or {})}, **kwargs)
