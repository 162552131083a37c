"""RNN placers as agents of the benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.free_memory import lacks_repair
from agents.common.reinforce import REINFORCE
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.options import hands_on_to
from agents.rnn.policy import HDPPolicy, RNNPolicy
from agents.search.starts import NOTHING, begin
from placement_gym.base.errors import unknown_name
from placement_gym.envs.observation import FEATURES
from placement_gym.envs.placement_env import placement_env


def entropy(remaining: float) -> float:
    """The weight of the entropy; it falls linearly. Saved models name this function."""
    return 0.002 + 0.048 * remaining


SETTINGS: dict[str, dict[str, Any]] = {
    "rl": {
        "learning_rate": 1e-3,
        "n_steps": 1,
        "n_epochs": 2,
        "baseline": "leave_one_out",
        "ent_coef": entropy,
        "device": "cpu",
    },
    "paper": {
        "learning_rate": 1e-3,
        "n_steps": 1,
        "baseline": "moving_average",
        "decay": 0.9,
        "ent_coef": 0.01,
        "max_grad_norm": 1.0,
        "device": "cpu",
    },
}
"""Arguments of REINFORCE. Deviation of ``"paper"``: advantages are scaled, as rewards are in
sqrt(ms)."""
ENVS: dict[str, dict[str, Any]] = {
    "rl": {"num_envs": 10, "horizon": 1, "reward": "log_speedup"},
    "paper": {"num_envs": 10, "horizon": 1, "reward": "neg_sqrt_latency"},
}
"""Arguments of ``PlacementVectorEnv``."""
POLICIES: dict[str, dict[str, Any]] = {
    "rl": {
        "features": tuple(FEATURES),
        "devices": True,
        "coarse": True,
        "hidden": 64,
        "decoder": 128,
    },
    "paper": {},
}
"""Arguments of ``RNNPolicy``."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    begin_with: str = NOTHING,
    hierarchical: bool = False,
    weights: str | Path | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make an RNN placer with REINFORCE, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: ``"rl"``; or ``"paper"``, which sees neither times nor limits. ``"rl"`` keeps to
            the memory of devices where ``env`` does not repair placements.
        policy: Arguments of ``RNNPolicy`` that override the preset.
        envs: Arguments of ``PlacementVectorEnv`` that override the preset.
        begin_with: The first evaluations: ``"nothing"``, ``"heuristics"`` or ``"search"``, see
            ``agents.search.starts``.
        hierarchical: Whether units are grouped first.
        weights: Those that the policy begins with: a file of ``agents.save_weights``;
            None is random. None comes with the package: they take two megabytes.
        settings: Arguments of ``REINFORCE`` that override the preset, as ``imitate``.

    Raises:
        ValueError: Unknown preset.
    """
    if preset not in SETTINGS:
        raise unknown_name("preset", preset, SETTINGS)
    base = placement_env(env)
    chosen = POLICIES[preset] | (policy or {})
    if preset == "rl" and not hierarchical:
        chosen = {"respect_memory": lacks_repair(base), **chosen}
    sees = chosen.get("devices", False)
    graphs = base.graph_table(devices=True if sees else None)
    model = REINFORCE(
        HDPPolicy if hierarchical else RNNPolicy,
        vectorize(env, **ENVS[preset] | (envs or {})),
        policy_kwargs={"graphs": graphs, **chosen},
        seed=seed,
        **SETTINGS[preset] | settings,
    )
    begin(model.policy, env, begin_with, seed)
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model


@hands_on_to(make)
def make_hierarchical(env: gym.Env[Any, Any], seed: int, **kwargs: Any) -> REINFORCE:
    """Make the hierarchical placer; see ``make``."""
    return make(env, seed, hierarchical=True, **kwargs)
