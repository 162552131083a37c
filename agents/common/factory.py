"""One way to make a learned agent for an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.common.graph_policy import GraphPolicy
from agents.common.learner import OnPolicyLearner
from agents.common.reinforce import REINFORCE
from agents.common.vec_env import vectorize
from agents.common.weights import load_weights
from agents.options import hands_on_to
from placement_gym.base.errors import unknown_name
from placement_gym.envs.placement_env import placement_env

SB3_ADAM: Mapping[str, Any] = {"eps": 1e-5}
"""Epsilon of Adam in Stable-Baselines3, after OpenAI Baselines; PyTorch's default is 1e-8."""


@dataclass(frozen=True)
class Preset:
    """Settings with which a method is run and trained.

    Attributes:
        policy: Options of the policy, an instance of its ``Options``.
        algorithm: Arguments of the algorithm.
        envs: Arguments of ``PlacementVectorEnv``.
        optimizer: Arguments of Adam.
    """

    policy: Any
    algorithm: Mapping[str, Any]
    envs: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """The parts of a learned agent that all presets share.

    Attributes:
        policy: Class of the policy.
        presets: Presets by name.
        algorithm: Class of the algorithm.
        rollouts: Makes the environment to learn in from another one and ``envs``.
    """

    policy: type[GraphPolicy]
    presets: Mapping[str, Preset]
    algorithm: type[OnPolicyLearner] = REINFORCE
    rollouts: Callable[..., Any] = vectorize


@hands_on_to()
def make_learner(
    method: Method,
    env: gym.Env[Any, Any],
    seed: int,
    preset: str = "rl",
    policy: Mapping[str, Any] | None = None,
    envs: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    **settings: Any,
) -> Any:
    """Make a learned agent for one environment.

    Args:
        method: Its policy, algorithm and presets.
        env: The environment to learn in.
        seed: Seed of all random numbers.
        preset: Name of a preset: ``"rl"``, ours, or ``"paper"``, the publication's numbers.
        policy: Options of the policy that override the preset.
        envs: Arguments of ``PlacementVectorEnv`` that override the preset.
        weights: What the policy begins with, a file of ``agents.save_weights``; None is untrained.
        settings: Arguments of the algorithm that override the preset.

    Raises:
        FileError: The file cannot be read.
        UserError: Unknown preset or option, an argument is out of range, or weights do not fit.
    """
    if preset not in method.presets:
        raise unknown_name("preset", preset, method.presets)
    chosen_preset = method.presets[preset]
    joint = {"joint": True} if getattr(method.policy, "joint", False) else {}
    options = {**asdict(chosen_preset.policy), **(policy or {})}
    # Observations carry no graph, and the policy gets it once, here; without the tables of devices
    # if it would not read them.
    graphs = placement_env(env, **joint).graph_table(method.policy.reads_devices(options))
    model = method.algorithm(
        method.policy,  # type: ignore[arg-type]
        method.rollouts(env, **joint, **{**chosen_preset.envs, **(envs or {})}),
        policy_kwargs={
            "graphs": graphs,
            "optimizer_kwargs": dict(chosen_preset.optimizer),
            **options,
        },
        seed=seed,
        **{"device": "cpu", **chosen_preset.algorithm, **settings},
    )
    if weights is not None:
        load_weights(model, weights)
    return model
