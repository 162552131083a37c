"""Placeto as an agent of the benchmark."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.common.reinforce import REINFORCE
from agents.placeto.policy import PlacetoPolicy
from placement_gym.env import placement_env
from placement_gym.rollout import episode
from placement_gym.wrappers import PerUnit

FIRST_RATE, LAST_RATE = 1e-3, 1e-4


class Placeto(REINFORCE):
    """REINFORCE on units one after another, which also answers where all units go at once.

    Where an observation has no current unit, the answer is an episode's last placement; the episode
    evaluates that placement alone.
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
        for row in actions.reshape(-1, actions.shape[-1]):
            assignment = self.episode_placement(deterministic)
            row[: len(assignment)] = assignment
        return actions, state

    def episode_placement(self, deterministic: bool) -> NDArray[np.int64]:
        """(n_units,) devices at the end of an episode."""
        assert self.env is not None
        placed = PerUnit(copy(self.env.get_attr("base")[0]), reward="final")
        episode(placed, self, deterministic)
        return placed.assignment


def rate(remaining: float) -> float:
    """Of learning: falls linearly."""
    return LAST_RATE + (FIRST_RATE - LAST_RATE) * remaining


def entropy(remaining: float) -> float:
    """Its weight: falls linearly from one."""
    return remaining


SETTINGS: dict[str, Any] = {
    "learning_rate": rate,
    "batch_size": 64,
    "baseline": "per_step",
    "decay": 0.9,
    "ent_coef": entropy,
    "max_grad_norm": 1.25,
}
"""Of REINFORCE; a roll-out is an episode."""


def make(
    env: gym.Env[Any, Any],
    seed: int,
    start: str = "first",
    policy: dict[str, Any] | None = None,
    **settings: Any,
) -> Placeto:
    """Placeto with REINFORCE on one environment, whichever of its forms it has.

    Args:
        env: Where it learns.
        seed: Of everything random.
        start: Placement that episodes start from; see ``PerUnit``.
        policy: Arguments of ``PlacetoPolicy``.
        settings: Arguments of ``REINFORCE`` that differ from ``SETTINGS``.
    """
    base = copy(placement_env(env))
    base.observer = replace(base.observer, graph=False)
    base.observation_space = base.observer.space()
    return Placeto(
        PlacetoPolicy,
        PerUnit(base, start=start),
        policy_kwargs={"graphs": base.graph_table(), **(policy or {})},
        seed=seed,
        device="cpu",
        **{"n_steps": base.problem.n_units, **SETTINGS, **settings},
    )
