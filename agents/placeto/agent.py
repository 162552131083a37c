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
from agents.placeto.unscored import unscored_episode
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.errors import UserError
from placement_gym.wrappers import PerUnit

FIRST_RATE, LAST_RATE = 1e-3, 1e-4


class Placeto(REINFORCE):
    """REINFORCE on units one after another, which also answers where all units go at once.

    Where an observation has no current unit, the answer is the last placement of an episode that
    begins with all units on the reference device and evaluates nothing.
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
        env = self.own_env(observation["graph_id"])
        for row in actions.reshape(-1, actions.shape[-1]):
            row[: env.problem.n_units] = unscored_episode(self, env, deterministic)
        return actions, state

    def own_env(self, graph_id: NDArray[Any]) -> DevicePlacementEnv:
        """The environment that it learned on.

        Raises:
            ValueError: There is none, or the question is about another graph.
        """
        env = None if self.env is None else self.env.get_attr("base")[0]
        if env is None or (graph_id != env.observer.graph_id).any():
            raise UserError(
                "Placeto answers for all units at once only where it learned: for another graph "
                "play an episode in DevicePlacementPerUnit-v0 or DevicePlacementPerUnitSim-v0"
            )
        return env


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
    "device": "cpu",
}
"""Of REINFORCE; a roll-out is an episode. Ours: advantages are scaled, and the baseline of a step
is an average that forgets, not the mean of ten episodes."""


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
        start: Placement that episodes start from; see ``PerUnit``, of which only this is taken,
            not what ``env`` may have set. One that is not ``"first"`` is evaluated too.
        policy: Arguments of ``PlacetoPolicy``.
        settings: Arguments of ``REINFORCE`` that differ from ``SETTINGS``.
    """
    original = placement_env(env)
    _ = original.singles  # measured once for both
    base = copy(original)
    base.observer = replace(base.observer, graph=False)
    base.observation_space = base.observer.space()
    return Placeto(
        PlacetoPolicy,
        PerUnit(base, start=start),
        policy_kwargs={"graphs": base.graph_table(), **(policy or {})},
        seed=seed,
        **{"n_steps": base.problem.n_units, **SETTINGS, **settings},
    )
