"""Many rows of decisions per step: vector environments of placement, priority and fusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from placement_gym.arrays import IntArray
from placement_gym.decisions import PLACEMENT_ALONE, decides_placement_alone
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError
from placement_gym.joint_env import JointEnv
from placement_gym.observation import Observation
from placement_gym.vector import PlacementVectorEnv, SeededVectorEnv, SimulatedVectorEnv


class JointVectorEnv(PlacementVectorEnv):
    """``PlacementVectorEnv`` of a ``JointEnv``, whose actions are (num_envs, width) decisions.

    Args:
        env: See ``PlacementVectorEnv``.
        num_envs: See ``PlacementVectorEnv``.
        kwargs: Further arguments of ``PlacementVectorEnv``.

    Raises:
        ValueError: See ``PlacementVectorEnv``.
    """

    env: JointEnv

    def __init__(self, env: JointEnv, num_envs: int = 1, **kwargs: Any) -> None:
        super().__init__(env, num_envs, **kwargs)
        alone, both = self.single_observation_space, env.observation_space
        assert isinstance(alone, spaces.Dict)
        assert isinstance(both, spaces.Dict)
        further = {key: both[key] for key in ("priority", "fused")}
        self.single_observation_space = spaces.Dict({**alone.spaces, **further})
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def complete(self, placements: IntArray) -> IntArray:
        """As ``PlacementVectorEnv.complete``; all levels are 0, and nothing is fused."""
        return self.env.layout.complete(placements)

    def parse_actions(self, actions: Any) -> IntArray:
        """Return a copy of (num_envs, width) actions, which are rows of decisions."""
        given, shape = np.asarray(actions), (self.num_envs, self.env.layout.width)
        if given.dtype.kind not in "iu" or given.shape != shape:
            raise UserError(f"actions of {self.env.decisions} are {shape} numbers, not {actions!r}")
        rows = given.astype(np.int64)
        self.env.layout.check(rows)
        return rows

    def observe(self) -> Observation:
        """As ``PlacementVectorEnv.observe``, and the decisions so far beside the placement."""
        units, levels, _ = self.env.layout.counts
        n_units, n_edges = self.env.layout.n_units, self.env.layout.n_edges
        placements, rest = np.split(self.assignments, [units], axis=1)
        priority = rest[:, :levels] if levels else np.zeros((self.num_envs, n_units), np.int64)
        fused = rest[:, levels:]
        if not fused.shape[1]:
            fused = np.zeros((self.num_envs, n_edges), np.int64)
        seen = self.observer.observe_batch(placements, self.steps)
        return {**seen, "priority": priority.copy(), "fused": fused.astype(np.int8)}


class JointSimulatedVectorEnv(JointVectorEnv, SeededVectorEnv):
    """``SimulatedVectorEnv`` of ``JointEnv``: equal to ``num_envs`` single environments.

    Args:
        num_envs: Rows of decisions per step.
        decisions: See ``JointEnv``.
        kwargs: As for ``JointEnv``, without ``render_mode``.

    Raises:
        ValueError: See ``SimulatedVectorEnv``.
        UserError: See ``JointEnv``.
    """

    def __init__(self, num_envs: int, decisions: Sequence[str], **kwargs: Any) -> None:
        env = JointEnv(decisions, **kwargs)
        super().__init__(env, num_envs, exact=env.joint)


def make_vector(env: DevicePlacementEnv, num_envs: int = 1, **kwargs: Any) -> PlacementVectorEnv:
    """``PlacementVectorEnv``, or ``JointVectorEnv`` if actions decide more than the placement.

    Args:
        env: Its problem, backend and settings are used.
        num_envs: Placements per step.
        kwargs: Further arguments of ``PlacementVectorEnv``.
    """
    if isinstance(env, JointEnv):
        return JointVectorEnv(env, num_envs, **kwargs)
    return PlacementVectorEnv(env, num_envs, **kwargs)


def simulated_vector(
    num_envs: int = 1, decisions: Sequence[str] = PLACEMENT_ALONE, **kwargs: Any
) -> PlacementVectorEnv:
    """``gym.make_vec("DevicePlacementSim-v0", num_envs=k)``: equal to k single environments.

    Args:
        num_envs: Placements per step.
        decisions: See ``joint_env.simulated``.
        kwargs: As for ``SimulatedEnv``, without ``render_mode``.

    Raises:
        ValueError: See ``SimulatedVectorEnv``.
        UserError: See ``JointEnv``.
    """
    if decides_placement_alone(decisions):
        return SimulatedVectorEnv(num_envs, **kwargs)
    return JointSimulatedVectorEnv(num_envs, decisions, **kwargs)
