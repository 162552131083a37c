"""The best placements so far, kept to be imitated (self-imitation learning, Oh et al. 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictRolloutBuffer

from agents.common.baselines import is_key
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError

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


def read_elite(values: Any, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> Elite:
    """Read an elite of a checkpoint.

    Raises:
        UserError: It does not fit the spaces.
    """
    if not isinstance(values, list) or len(values) != 3 or not isinstance(values[0], float):
        raise UserError("an elite is a value, an action and an observation")
    value, action, seen = values
    known = observations.spaces if isinstance(observations, spaces.Dict) else {}
    fits = isinstance(seen, dict) and set(seen) == set(known)
    fits = fits and all(has_form(seen[key], known[key]) for key in known)
    if not fits or not isinstance(action, np.ndarray) or action.shape != actions.shape:
        raise UserError("an elite does not fit the spaces of the environment")
    return Elite(value, action, seen)


def has_form(array: Any, space: spaces.Space[Any]) -> bool:
    """Tell if something is an array with the shape of a space's members."""
    shape = (1,) if isinstance(space, spaces.Discrete) else space.shape
    return isinstance(array, np.ndarray) and array.shape == shape


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

    def get_state(self) -> dict[str, list[list[Any]]]:
        """Value, action and observation of each elite by key, for a checkpoint."""
        return {str(key): [list(elite) for elite in best] for key, best in self.best.items()}

    def set_state(
        self, state: Any, observations: spaces.Space[Any], actions: spaces.Space[Any]
    ) -> None:
        """Take what ``get_state`` returned.

        Args:
            state: From a checkpoint.
            observations: The space that its observations must fit in shape and type.
            actions: Likewise.

        Raises:
            UserError: It has another form.
        """
        if not isinstance(state, dict):
            raise UserError("it has no elites")
        found: dict[int, list[Elite]] = {}
        for key, elites in state.items():
            if not is_key(key) or not isinstance(elites, list):
                raise UserError(f"it has elites of {key!r:.60}")
            found[int(key)] = [read_elite(elite, observations, actions) for elite in elites]
        self.best = found

    def batch(self) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """(k, ...) observations and (k, N) actions of all elites."""
        elites = [elite for best in self.best.values() for elite in best]
        first = elites[0].observation
        observations = {key: np.stack([e.observation[key] for e in elites]) for key in first}
        return observations, np.stack([elite.action for elite in elites])
