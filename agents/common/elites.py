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

N_ELITES = 2
"""Best placements of each graph and step of an episode that are imitated: ours."""


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
        number: Number of actions for each graph and step.
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
            feasible: (n_steps, n_envs) bool, whether the placement is feasible.
        """
        for step, env in np.argwhere(feasible).tolist():
            elites = self.best.setdefault(int(keys[step, env]), [])
            value, action = float(returns[step, env]), buffer.actions[step, env]
            if len(elites) == self.number and value <= elites[-1].value:
                continue
            # A policy that converges samples one placement again and again, which is one elite.
            if any(np.array_equal(action, elite.action) for elite in elites):
                continue
            observation = {
                key: values[step, env].copy() for key, values in buffer.observations.items()
            }
            elites.append(Elite(value, action.copy(), observation))
            elites.sort(key=lambda elite: -elite.value)
            del elites[self.number :]

    def get_state(self) -> dict[str, NDArray[Any]]:
        """(k,) keys and values, (k, ...) actions and observations; empty without elites."""
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
        """Restore what ``get_state`` returned.

        Args:
            state: From a checkpoint.
            observations: The space whose shapes its observations must have.
            n_actions: The number of entries of an action.

        Raises:
            UserError: It has another form.
        """
        elites: dict[int, list[Elite]] = {}
        if state:
            shapes: Any = get_obs_shape(observations)
            check_rows(state, {"key": (), "value": (), "action": (n_actions,), **shapes})
            for i, key in enumerate(state["key"].tolist()):
                observation = {name: state[name][i] for name in shapes}
                elite = Elite(float(state["value"][i]), state["action"][i], observation)
                elites.setdefault(key, []).append(elite)
        self.best = elites

    def batch(self) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """(k, ...) observations and (k, N) actions of all elites."""
        elites = [elite for best in self.best.values() for elite in best]
        names = elites[0].observation
        observations = {key: np.stack([e.observation[key] for e in elites]) for key in names}
        return observations, np.stack([elite.action for elite in elites])
