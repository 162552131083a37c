"""RNN placers as agents of the benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.reinforce import REINFORCE
from agents.common.starts import RANDOM, begin_with
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.rnn.hdp import HDPPolicy
from agents.rnn.policy import RNNPolicy
from placement_gym.env import placement_env
from placement_gym.errors import unknown_name
from placement_gym.observation import FEATURES

PAPER = "paper"
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {
        "learning_rate": 1e-3,
        "n_steps": 1,
        "n_epochs": 2,
        "baseline": "leave_one_out",
        "gradient": 0.0,
        "ent_coef": 0.0,
        "elites": 2,
        "imitation": 10.0,
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
"""Arguments of REINFORCE. Imitation alone was better on validation problems than with the policy
gradient. Unlike in the paper advantages are scaled, as rewards are in sqrt(ms)."""
ENVS: dict[str, dict[str, Any]] = {
    "default": {"num_envs": 10, "horizon": 1, "reward": "log_speedup"},
    "paper": {"num_envs": 10, "horizon": 1, "reward": "neg_sqrt_latency"},
}
"""Arguments of ``PlacementVectorEnv``."""
POLICIES: dict[str, dict[str, Any]] = {
    "default": {
        "features": tuple(FEATURES),
        "devices": True,
        "coarse": True,
        "greedy_first": True,
        "hidden": 64,
        "decoder": 128,
    },
    PAPER: {},
}
"""Arguments of ``RNNPolicy``; ``room`` is kept where the environment does not repair."""
STARTS = {"default": "heuristics", "paper": RANDOM}


def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "default",
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    start: str | None = None,
    hierarchical: bool = False,
    weights: str | Path | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make an RNN placer with REINFORCE, on batches of placements of one environment.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: ``"default"``; or ``"paper"``, which sees neither times nor limits.
        policy: Arguments of ``RNNPolicy`` that override the preset.
        envs: Arguments of ``PlacementVectorEnv`` that override the preset.
        start: What is evaluated first, see ``agents.search.starts.propose_starts``; None takes
            the preset's.
        hierarchical: Whether units are grouped first.
        weights: What the policy begins with: a file of ``agents.save_weights``;
            None is random. None comes with the package: they take two megabytes.
        settings: Arguments of ``REINFORCE`` that override the preset.

    Raises:
        ValueError: Unknown preset.
    """
    if preset not in SETTINGS:
        raise unknown_name("preset", preset, SETTINGS)
    base = placement_env(env)
    room = {"room": not base.repair} if preset != PAPER else {}
    chosen = room | POLICIES[preset] | (policy or {})
    sees = chosen.get("devices", False) or chosen.get("room", False)
    graphs = base.graph_table(devices=True if sees else None)
    model = REINFORCE(
        HDPPolicy if hierarchical else RNNPolicy,
        vectorize(env, **ENVS[preset] | (envs or {})),
        policy_kwargs={"graphs": graphs, **chosen},
        seed=seed,
        **SETTINGS[preset] | settings,
    )
    begin_with(model.policy, env, STARTS[preset] if start is None else start)
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model


def make_hierarchical(env: gym.Env[Any, Any], seed: int, **kwargs: Any) -> REINFORCE:
    """Make the hierarchical placer; see ``make``."""
    return make(env, seed, hierarchical=True, **kwargs)
