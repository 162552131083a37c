"""The best placements of a training, to be imitated (Oh et al. 2018, self-imitation learning)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictRolloutBuffer

from placement_gym.arrays import IntArray


class Elite(NamedTuple):
    """One action that was worth it.

    Attributes:
        value: Its return.
        action: (N,) devices.
        observation: What it answered.
    """

    value: float
    action: NDArray[Any]
    observation: dict[str, NDArray[Any]]


class Elites:
    """The actions of highest return for each graph and step.

    Args:
        number: How many are kept of each.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.best: dict[int, list[Elite]] = {}

    def remember(self, buffer: DictRolloutBuffer, returns: NDArray[Any], keys: IntArray) -> None:
        """Keep the best of a roll-out and of what was known.

        Args:
            buffer: Of (n_steps, n_envs) actions and observations.
            returns: (n_steps, n_envs).
            keys: (n_steps, n_envs) graph and step.
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
        """(k, ...) observations and (k, N) actions of all that are kept."""
        elites = [elite for best in self.best.values() for elite in best]
        first = elites[0].observation
        observations = {key: np.stack([e.observation[key] for e in elites]) for key in first}
        return observations, np.stack([elite.action for elite in elites])
