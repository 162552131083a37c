"""The best placements so far, kept to be imitated (self-imitation learning, Oh et al. 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictRolloutBuffer

from placement_gym.arrays import IntArray


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

    def remember(self, buffer: DictRolloutBuffer, returns: NDArray[Any], keys: IntArray) -> None:
        """Add the best actions of a rollout; drop those that are no longer among the best.

        Args:
            buffer: Rollout of (n_steps, n_envs) actions and observations.
            returns: (n_steps, n_envs) return of each action.
            keys: (n_steps, n_envs) key of each action's graph and step.
        """
        for step, env in np.ndindex(returns.shape):
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

    def batch(self) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """(k, ...) observations and (k, N) actions of all elites."""
        elites = [elite for best in self.best.values() for elite in best]
        first = elites[0].observation
        observations = {key: np.stack([e.observation[key] for e in elites]) for key in first}
        return observations, np.stack([elite.action for elite in elites])
