"""Placeto: places one unit after another, with a reward at each step (NeurIPS 2019)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.common import REINFORCE, SB3_ADAM, LearnedAgent, Preset, lacks_repair
from agents.placeto.episodes import UnitRollouts, make_training_episodes
from agents.placeto.placeto import Placeto
from agents.placeto.policy import PlacetoOptions, PlacetoPolicy
from placement_gym.envs import DevicePlacementEnv

__all__ = ["Placeto", "PlacetoOptions", "PlacetoPolicy", "make", "make_trainer"]

FIRST_RATE, LAST_RATE = 1e-3, 1e-4


def rate(remaining: float) -> float:
    """The learning rate; it falls linearly. Saved models name this function."""
    return LAST_RATE + (FIRST_RATE - LAST_RATE) * remaining


def entropy(remaining: float) -> float:
    """The weight of the entropy; it falls linearly from 1. Saved models name this function."""
    return remaining


COMMON: dict[str, Any] = {
    "learning_rate": rate,
    "batch_size": 64,
    "baseline": "per_step",
    "max_grad_norm": 1.25,
}
PRESETS = {
    "rl": Preset(
        PlacetoOptions(devices=True), {**COMMON, "gamma": 0.9, "ent_coef": 0.01}, optimizer=SB3_ADAM
    ),
    "paper": Preset(
        PlacetoOptions(), {**COMMON, "gamma": 1.0, "ent_coef": entropy}, optimizer=SB3_ADAM
    ),
}
"""``numbers.csv`` has the numbers with their sources; ``adapt`` sets ``n_steps``."""


def adapt(name: str, preset: Preset, env: DevicePlacementEnv) -> Preset:
    """Make rollouts of episodes, which keep to memory limits where nothing repairs placements.

    The paper does not keep to them.
    """
    policy = preset.policy
    if name == "rl" and lacks_repair(env):
        policy = replace(policy, respect_memory=True)
    n_steps = max(env.problem.n_units, preset.algorithm.get("n_steps", 0))
    return replace(preset, policy=policy, algorithm={**preset.algorithm, "n_steps": n_steps})


make = LearnedAgent(PlacetoPolicy, PRESETS, Placeto, adapt, UnitRollouts)
"""Makes ``Placeto``, for environments that place all units at once or one unit per step."""


def make_trainer(
    seed: int = 0,
    problems: int = 8,
    episodes: int = 8,
    policy: dict[str, Any] | None = None,
    envs: dict[str, Any] | None = None,
    **settings: Any,
) -> REINFORCE:
    """Make REINFORCE across problems of the split ``train``; ``learn`` draws them.

    A step places one unit, and is compared with the same step of other episodes of its problem. An
    update sees a part of an episode; the network also fits ``ZeroShot``. Placements beyond a limit
    are repaired.

    Args:
        seed: Of weights and problems.
        problems: Problems of an update.
        episodes: Episodes of each, at least two.
        policy: Options of ``PlacetoPolicy``.
        envs: Arguments of ``StreamEnv``, as ``make_problem``.
        settings: Arguments of ``REINFORCE`` that override those of the training.

    Raises:
        UserError: There are fewer than two episodes.
    """
    defaults = {
        "n_steps": 32,
        "batch_size": 512,
        "gamma": 0.9,
        "ent_coef": 0.01,
        "max_grad_norm": 1.25,
    }
    return REINFORCE(
        PlacetoPolicy,
        make_training_episodes(problems, episodes, **envs or {}),
        policy_kwargs={"devices": True, **(policy or {})},
        seed=seed,
        **{"device": "cpu", **defaults, **settings},
    )
