"""Placeto as an agent of the benchmark."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.common.reinforce import REINFORCE
from agents.common.weights import load_weights
from agents.placeto.policy import PlacetoPolicy
from agents.placeto.unevaluated import play_unevaluated_episode
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.errors import UserError
from placement_gym.wrappers import PerUnit

FIRST_RATE, LAST_RATE = 1e-3, 1e-4


class Placeto(REINFORCE):
    """REINFORCE on one unit per step, which can also predict the devices of all units at once.

    If an observation has no current unit, the prediction is the final placement of an episode that
    starts with all units on the reference device and evaluates no placement.
    """

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]:
        """The current unit's device, or the devices of (N,) or (B, N) units."""
        if "current_unit" in observation:
            return super().predict(observation, state, episode_start, deterministic)
        actions = np.zeros(observation["placement"].shape, dtype=np.int64)
        env = self.training_env(observation["graph_id"])
        for row in actions.reshape(-1, actions.shape[-1]):
            row[: env.problem.n_units] = play_unevaluated_episode(self, env, deterministic)
        return actions, state

    def training_env(self, graph_id: NDArray[Any]) -> DevicePlacementEnv:
        """The environment of the training.

        Raises:
            ValueError: There is none, or it has another graph.
        """
        env = None if self.env is None else self.env.get_attr("base")[0]
        if env is None or (graph_id != env.observer.graph_id).any():
            raise UserError(
                "Placeto predicts all units at once for the graph it was trained on; for another, "
                "play an episode in DevicePlacementPerUnit-v0 or DevicePlacementPerUnitSim-v0"
            )
        return env


def rate(remaining: float) -> float:
    """The learning rate; it falls linearly. Saved models name this function."""
    return LAST_RATE + (FIRST_RATE - LAST_RATE) * remaining


def entropy(remaining: float) -> float:
    """The weight of the entropy; it falls linearly from 1. Saved models name this function."""
    return remaining


SETTINGS: dict[str, Any] = {
    "learning_rate": rate,
    "batch_size": 64,
    "baseline": "per_step",
    "decay": 0.9,
    "ent_coef": entropy,
    "max_grad_norm": 1.25,
    "device": "cpu",
}
"""Arguments of REINFORCE; a rollout is an episode. Unlike in the paper advantages are scaled, and
the baseline of a step is a moving average, not the mean of ten episodes."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    start: str = "first",
    policy: dict[str, Any] | None = None,
    weights: str | Path | None = None,
    **settings: Any,
) -> Placeto:
    """Make Placeto for an environment that places all units at once or one unit per step.

    Args:
        env: The environment to learn in.
        seed: Seed of all random numbers.
        start: Placement that episodes start from; see ``PerUnit``. It replaces the setting of
            ``env``. A start other than ``"first"`` is evaluated, too.
        policy: Arguments of ``PlacetoPolicy``.
        weights: What the policy begins with: ``"inception-hsdag-paper"``, trained on that problem,
            or a file of ``agents.common.weights.save_weights``; None is random.
        settings: Arguments of ``REINFORCE`` that override ``SETTINGS``.
    """
    original = placement_env(env)
    _ = original.singles  # measured once for both
    base = copy(original)
    base.observer = replace(base.observer, graph=False)
    base.observation_space = base.observer.space()
    model = Placeto(
        PlacetoPolicy,
        PerUnit(base, start=start),
        policy_kwargs={"graphs": base.graph_table(), **(policy or {})},
        seed=seed,
        **{"n_steps": base.problem.n_units, **SETTINGS, **settings},
    )
    if weights is not None:
        load_weights(model, weights, Path(__file__).parent)
    return model
