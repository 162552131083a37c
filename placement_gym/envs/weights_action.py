"""Actions that are weights of a list scheduler instead of a device for each unit."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from placement_gym.base.arrays import Float32Array, FloatArray, IntArray
from placement_gym.base.errors import UserError
from placement_gym.envs.observation import Observation
from placement_gym.envs.placement_env import find_semantics, placement_env
from placement_gym.problem.costs.semantics import parse_schedule
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.list_policy.scheduler import N_WEIGHTS, ListScheduler


def make_weights_space() -> spaces.Box:
    """The space of actions: a number from -1 to 1 for each weight."""
    return spaces.Box(-1.0, 1.0, (N_WEIGHTS,), np.float32)


def read_weights(actions: ArrayLike, number: int = 1) -> FloatArray:
    """The (number, ``N_WEIGHTS``) argument of a ``ListScheduler``, from as many actions.

    Raises:
        UserError: They have another shape, or numbers that are not finite.
    """
    weights = np.asarray(actions, dtype=np.float64)
    if weights.shape != (number, N_WEIGHTS) or not np.isfinite(weights).all():
        raise UserError(f"an action is {N_WEIGHTS} numbers from -1 to 1, not {actions!r:.200}")
    return np.minimum(np.maximum(weights, -1.0), 1.0)


class WeightsAction(
    gym.ActionWrapper[Observation, Float32Array, IntArray], gym.utils.RecordConstructorArgs
):
    """Lets an action be the weights of a list scheduler, which places all units.

    It wraps any environment that places all units at once. The scheduler computes with
    ``env.unwrapped.cost_table()``: where latencies are measured, that is the profile of this
    machine, made on the first step, and one inference at a time. Tastes of devices, see
    ``solvers.list_policy``, are drawn from the environment's generator, which ``reset`` seeds.

    Args:
        env: The environment.

    Raises:
        TypeError: The innermost environment is another one.
        UserError: Its actions decide more than the placement.
    """

    def __init__(self, env: gym.Env[Observation, IntArray]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.ActionWrapper.__init__(self, env)
        self.base = placement_env(env)
        self.action_space: gym.spaces.Space[Any] = make_weights_space()
        self.scheduler: ListScheduler | None = None

    def action(self, action: Float32Array) -> IntArray:
        """(N,) devices of the list schedule with these weights."""
        if self.scheduler is None:
            self.scheduler = make_scheduler(self.base)
        weights = read_weights([action])
        places, _ = self.scheduler.find_best(weights, self.np_random)
        row = np.zeros(self.base.observer.n_nodes, dtype=np.int64)
        row[: self.base.problem.n_units] = places[0]
        return row


def make_scheduler(env: Any) -> ListScheduler:
    """The list scheduler of an environment's problem and costs."""
    base = placement_env(env)
    semantics = find_semantics(base) or parse_schedule("serial", base.objective)
    return ListScheduler(base.problem, Simulator(base.problem.units, base.cost_table(), semantics))
