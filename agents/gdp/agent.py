"""GO as an agent, on one problem or across generated ones; the README has the numbers' sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym

from agents.common import training
from agents.common.factory import SB3_ADAM, Method, Preset, make_learner
from agents.common.reinforce import REINFORCE
from agents.gdp.policy import PAPER_FEATURES, GCNOptions, GCNPolicy, GOOptions, GOPolicy
from agents.gdp.ppo import UnitPPO
from agents.options import hands_on_to
from placement_gym.base.errors import unknown_name

PPO: dict[str, Any] = {"n_epochs": 4, "clip_range": 0.2}
"""What REINFORCE does without."""
COMMON: dict[str, Any] = {"n_steps": 1, "max_grad_norm": 1.0, **PPO}
PRESETS = {
    "rl": Preset(
        GOOptions(segment=256, memory=256),
        {**COMMON, "learning_rate": 1e-3, "ent_coef": 0.003},
        {"num_envs": 20, "horizon": 1, "reward": "log_speedup"},
        SB3_ADAM,
    ),
    "paper": Preset(
        GOOptions(features=PAPER_FEATURES, devices=False),
        {**COMMON, "learning_rate": 1e-4, "ent_coef": 0.01},
        # advantages are scaled, so that -sqrt(latency) is GO's -sqrt(latency / reference)
        {"num_envs": 20, "horizon": 1, "reward": "neg_sqrt_latency"},
        SB3_ADAM,
    ),
}


def without_ppo(preset: Preset) -> Preset:
    """The same preset for REINFORCE."""
    rest = {name: value for name, value in preset.algorithm.items() if name not in PPO}
    return replace(preset, algorithm=rest)


METHODS = {
    "ppo": Method(GOPolicy, PRESETS, UnitPPO),
    "reinforce": Method(GOPolicy, {name: without_ppo(preset) for name, preset in PRESETS.items()}),
}
GCN = Method(
    GCNPolicy,
    {
        "rl": Preset(
            GCNOptions(),
            {**PRESETS["rl"].algorithm, "learning_rate": 3e-3},
            PRESETS["rl"].envs,
            SB3_ADAM,
        )
    },
    UnitPPO,
)
TRAINING = training.Training(
    GOPolicy, {}, {"learning_rate": 3e-4, "ent_coef": 0.003, "max_grad_norm": 1.0}, UnitPPO
)


@hands_on_to(make_learner, UnitPPO)
def make(env: gym.Env[Any, Any], seed: int, algorithm: str = "ppo", **choices: Any) -> REINFORCE:
    """Make GO, on batches of placements of one environment.

    Args:
        env: The environment to learn in; its actions may decide priority and fusion, too.
        seed: Seed of all random numbers.
        algorithm: ``"ppo"``, see ``UnitPPO``, or ``"reinforce"``.
        choices: Those of ``make_learner``; ``preset="paper"`` sees neither costs nor devices.

    Raises:
        UserError: The algorithm is unknown; or see ``make_learner``.
    """
    if algorithm not in METHODS:
        raise unknown_name("algorithm", algorithm, METHODS)
    model: REINFORCE = make_learner(METHODS[algorithm], env, seed, **choices)
    return model


@hands_on_to(make_learner, UnitPPO)
def make_gcn(env: gym.Env[Any, Any], seed: int, **choices: Any) -> UnitPPO:
    """Make two graph convolutions, ``GCNPolicy``, with GO's PPO; see ``make_learner``."""
    model: UnitPPO = make_learner(GCN, env, seed, **choices)
    return model


def make_trainer(seed: int = 0, **choices: Any) -> UnitPPO:
    """Make GO's PPO across problems; see ``agents.common.training.make_trainer``.

    The network sees limits, times and links, so that it fits other devices.
    """
    model: UnitPPO = training.make_trainer(TRAINING, seed, **choices)
    return model
