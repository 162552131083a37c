"""RNN placers as agents of the benchmark: their numbers, which the README has with sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym

from agents.common.factory import SB3_ADAM, Method, Preset, make_learner
from agents.common.free_memory import lacks_repair
from agents.common.reinforce import REINFORCE
from agents.options import hands_on_to
from agents.rnn.policy import HDPPolicy, RNNOptions, RNNPolicy
from placement_gym.envs.observation import FEATURES
from placement_gym.envs.placement_env import placement_env


def entropy(remaining: float) -> float:
    """The weight of the entropy; it falls linearly. Saved models name this function."""
    return 0.002 + 0.048 * remaining


PRESETS = {
    "rl": Preset(
        RNNOptions(features=tuple(FEATURES), devices=True, hidden=64, decoder=128),
        {
            "learning_rate": 1e-3,
            "n_steps": 1,
            "n_epochs": 2,
            "baseline": "leave_one_out",
            "ent_coef": entropy,
        },
        {"num_envs": 10, "horizon": 1, "reward": "log_speedup"},
        SB3_ADAM,
    ),
    "paper": Preset(
        RNNOptions(),
        {
            "learning_rate": 1e-3,
            "n_steps": 1,
            "n_epochs": 1,
            "baseline": "moving_average",
            "ent_coef": 0.01,
            "max_grad_norm": 1.0,
        },
        {"num_envs": 10, "horizon": 1, "reward": "neg_sqrt_latency"},
        SB3_ADAM,
    ),
}
RNN = Method(RNNPolicy, PRESETS)
HDP = replace(RNN, policy=HDPPolicy)


@hands_on_to(make_learner, REINFORCE)
def make(
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    policy: Mapping[str, Any] | None = None,
    **choices: Any,
) -> REINFORCE:
    """Make the RNN placer with REINFORCE; see ``make_learner``.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: ``"rl"``, which keeps to the memory of devices where ``env`` does not repair
            placements; or ``"paper"``, which sees neither times nor limits.
        policy: Attributes of ``RNNOptions`` that override the preset.
        choices: Further arguments of ``make_learner``.
    """
    keeps = preset == "rl" and lacks_repair(placement_env(env))
    policy = {**({"respect_memory": True} if keeps else {}), **(policy or {})}
    model: REINFORCE = make_learner(RNN, env, seed, preset=preset, policy=policy, **choices)
    return model


@hands_on_to(make_learner, REINFORCE)
def make_hierarchical(env: gym.Env[Any, Any], seed: int, **choices: Any) -> REINFORCE:
    """Make the hierarchical placer; see ``make_learner``."""
    model: REINFORCE = make_learner(HDP, env, seed, **choices)
    return model
