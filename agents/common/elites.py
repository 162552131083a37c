"""The best placements so far, kept to be imitated (self-imitation learning, Oh et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictRolloutBuffer
from stable_baselines3.common.preprocessing import get_obs_shape

from agents.common.weights import check_rows
from placement_gym.base.arrays import BoolArray, IntArray

IMITATED = 2
"""Best placements of each graph and step of an episode that are imitated."""


class Elite(NamedTuple):
    """An action of high return. Saved models name this class.

    Attributes:
        value: Its return.
        action: (N,) devices.
        observation: The observation it was chosen for.
    """

    value: float
    action: NDArray[Any]
    observation: dict[str, NDArray[Any]]


class Elites:
    """The actions of highest return for each graph and step. Saved models name this class.

    Args:
        number: How many actions are kept per graph and step.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.best: dict[int, list[Elite]] = {}

    def remember(
        self,
        buffer: DictRolloutBuffer,
        returns: NDArray[Any],
        keys: IntArray,
        feasible: BoolArray,
    ) -> None:
        """Add the best feasible actions of a rollout; drop those that are no longer among the best.

        Args:
            buffer: Rollout of (n_steps, n_envs) actions and observations.
            returns: (n_steps, n_envs) return of each action.
            keys: (n_steps, n_envs) key of each action's graph and step.
            feasible: (n_steps, n_envs) bool, whether what was placed is.
        """
        for step, env in np.argwhere(feasible).tolist():
            best = self.best.setdefault(int(keys[step, env]), [])
            value, action = float(returns[step, env]), buffer.actions[step, env]
            if len(best) == self.number and value <= best[-1].value:
                continue
            if any(np.array_equal(action, elite.action) for elite in best):
                continue
            seen = {key: values[step, env].copy() for key, values in buffer.observations.items()}
            best.append(Elite(value, action.copy(), seen))
            best.sort(key=lambda elite: -elite.value)
            del best[self.number :]

    def get_state(self) -> dict[str, NDArray[Any]]:
        """(k,) keys and values, (k, ...) actions and observations of all elites; none if none."""
        if not self.best:
            return {}
        observations, actions = self.batch()
        return {
            "key": np.array([key for key, best in self.best.items() for _ in best]),
            "value": np.array([elite.value for best in self.best.values() for elite in best]),
            "action": actions,
            **observations,
        }

    def set_state(
        self, state: Mapping[str, NDArray[Any]], observations: spaces.Space[Any], n_actions: int
    ) -> None:
        """Take what ``get_state`` returned.

        Args:
            state: From a checkpoint.
            observations: The space whose shapes its observations must have.
            n_actions: The number of entries of an action.

        Raises:
            UserError: It has another form.
        """
        found: dict[int, list[Elite]] = {}
        if state:
            seen: Any = get_obs_shape(observations)
            check_rows(state, {"key": (), "value": (), "action": (n_actions,), **seen})
            for i, key in enumerate(state["key"].tolist()):
                observation = {name: state[name][i] for name in seen}
                elite = Elite(float(state["value"][i]), state["action"][i], observation)
                found.setdefault(key, []).append(elite)
        self.best = found

    def batch(self) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """(k, ...) observations and (k, N) actions of all elites."""
        elites = [elite for best in self.best.values() for elite in best]
        first = elites[0].observation
        observations = {key: np.stack([e.observation[key] for e in elites]) for key in first}
        return observations, np.stack([elite.action for elite in elites])
