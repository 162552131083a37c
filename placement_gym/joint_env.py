"""The simulated environment where an action also decides priority and fusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from placement_gym.arrays import BoolArray, IntArray
from placement_gym.backends.protocol import Batch, Measurement
from placement_gym.decisions import LEVELS, PLACEMENT_ALONE, Layout, decides_placement_alone
from placement_gym.entry_points import SimulatedEnv
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError
from placement_gym.observation import Observation
from placement_gym.problem import assignment_hash

PADDING = ("max_nodes", "max_edges", "max_devices")


class JointEnv(SimulatedEnv):
    """``DevicePlacementSim-v0`` with ``decisions=("placement", "priority", "fusion")``.

    ## Description
    As ``SimulatedEnv`` under an event schedule, but an action also tells each unit's priority or
    which edges are fused. A device that is free starts the ready unit of the highest level, of
    equal ones the first in topological order. A fused edge saves the launch of its reader, and the
    writing and reading of the tensor, where both ends share a device and the graph stays acyclic;
    see ``schedules.fusion``. Fused operators start when all of their inputs are
    there, and their outputs are there when all of them have finished.

    ## Action Space
    ``MultiDiscrete``: a device for each unit, then a level below 8 for each unit if priority is
    decided, then a bit for each edge of ``edge_index`` if fusion is.

    ## Observation Space
    That of ``DevicePlacementEnv``, and the decisions so far: ``priority`` (N,) int64 and ``fused``
    (E,) int8.

    ## Arguments
    ```python
    import gymnasium as gym
    import placement_gym

    decisions = ("placement", "priority", "fusion")
    env = gym.make(
        "DevicePlacementSim-v0", model="inception", schedule="event", decisions=decisions
    )
    ```

    ## References
    Zhou et al. 2020, "Transferable Graph Optimizers for ML Compilers", decide the same three.

    ## Version History
    * v0: Initial version.

    Args:
        decisions: ``"placement"``, and then ``"priority"``, ``"fusion"`` or both.
        kwargs: As for ``SimulatedEnv``, without padding; fusion needs analytic costs.

    Raises:
        UserError: The decisions, or an argument that they exclude.
        ValueError: See ``SimulatedEnv``.
    """

    def __init__(self, decisions: Sequence[str], **kwargs: Any) -> None:
        padded = [key for key in PADDING if kwargs.get(key) is not None]
        if padded:
            raise UserError(f"{padded} pad placements alone: leave them out, or decisions")
        super().__init__(**kwargs)
        from placement_gym.backends.simulated.joint import JointBackend

        self.layout = Layout.of(decisions, self.problem)
        self.decisions = self.layout.names
        self.joint = JointBackend(self.simulated, self.layout)
        self.backend = self.joint
        self.action_space = spaces.MultiDiscrete(self.layout.choices_of_each)
        self.row = self.layout.complete(self.assignment[None])[0]
        assert isinstance(self.observation_space, spaces.Dict)
        n_units, n_edges = self.layout.n_units, self.layout.n_edges
        self.observation_space = spaces.Dict(
            {
                **self.observation_space.spaces,
                "priority": spaces.Box(0, LEVELS - 1, (n_units,), np.int64),
                "fused": spaces.MultiBinary(n_edges),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """As ``SimulatedEnv.reset``; all levels are 0, and nothing is fused."""
        observation, _ = super().reset(seed=seed, options=options)
        self.row = self.layout.complete(self.assignment[None])[0]
        return self.extend(observation), self.get_info()

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide and evaluate; see the class for the action.

        Raises:
            ValueError: The action has another shape or range.
        """
        observation, reward, terminated, truncated, info = super().step(action)
        return self.extend(observation), reward, terminated, truncated, info

    def extend(self, observation: Observation) -> Observation:
        """Add the decisions so far beside the placement."""
        _, priority, fused = self.layout.split(self.row)
        return {**observation, "priority": priority.copy(), "fused": fused.astype(np.int8)}

    def parse_action(self, action: ArrayLike) -> IntArray:
        """Return a copy of an action, which is a row of decisions."""
        given = np.asarray(action)
        if given.dtype.kind not in "iu" or given.shape != (self.layout.width,):
            raise UserError(
                f"an action of {self.decisions} is {self.layout.width} numbers, not {action!r}"
            )
        return given.astype(np.int64)

    def evaluate(self, assignment: IntArray, keep: BoolArray | None = None) -> Measurement:
        """Evaluate a row of decisions, or a placement alone; it becomes the current one."""
        kept = None if keep is None else keep[None]
        rows, repaired = self.repair_proposals(self.layout.complete(assignment[None]), kept)
        self.layout.check(rows)
        measurement = self.backend.evaluate(rows[0])
        placement = rows[0, : self.layout.n_units]
        self.measurement = replace(measurement, repaired=True) if repaired[0] else measurement
        self.row, self.assignment = rows[0], placement
        return self.measurement

    def evaluate_batch(self, assignments: IntArray) -> tuple[IntArray, Batch]:
        """Evaluate (k, width) rows of decisions, or (k, n_units) placements alone.

        Returns:
            The rows that were evaluated, and their speed-ups and feasibility.
        """
        rows, _ = self.repair_proposals(self.layout.complete(assignments))
        speedup, feasible = self.backend.evaluate_batch(rows)
        return rows, Batch(speedup, feasible)

    def repair_proposals(
        self, assignments: IntArray, keep: BoolArray | None = None
    ) -> tuple[IntArray, BoolArray]:
        """As ``DevicePlacementEnv.repair_proposals``, for rows: placements are repaired."""
        n_units = self.layout.n_units
        fitting, repaired = super().repair_proposals(assignments[:, :n_units], keep)
        return np.concatenate([fitting, assignments[:, n_units:]], axis=1), repaired

    def action_masks(self) -> BoolArray:
        """(sum of choices,) bool, what each entry of an action may be, one after another."""
        _, levels, bits = self.layout.counts
        free = np.ones(levels * LEVELS + 2 * bits, dtype=np.bool_)
        return np.concatenate([super().action_masks(), free])

    def get_info(self) -> dict[str, Any]:
        """See ``DevicePlacementEnv.get_info``; ``placement_hash`` is that of all decisions."""
        return super().get_info() | {"placement_hash": assignment_hash(self.row)}


def simulated(decisions: Sequence[str] = PLACEMENT_ALONE, **kwargs: Any) -> DevicePlacementEnv:
    """``DevicePlacementSim-v0``: ``SimulatedEnv``, or ``JointEnv`` if actions decide more.

    Args:
        decisions: ``("placement",)``, or see ``JointEnv``.
        kwargs: As for ``SimulatedEnv``.

    Raises:
        UserError: See ``JointEnv``.
    """
    if decides_placement_alone(decisions):
        return SimulatedEnv(**kwargs)
    return JointEnv(decisions, **kwargs)
