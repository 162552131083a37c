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
    """``DevicePlacementSim-v0`` where an action also decides priority or fusion.

    Args:
        decisions: ``"placement"``, and then ``"priority"``, ``"fusion"`` or both.
        kwargs: Those of ``SimulatedEnv``, without padding; fusion needs analytic costs.

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
    """``DevicePlacementSim-v0``: latencies computed from a cost table.

    ## Description
    The [simulated twin](../docs/explanation/simulator.md) of `DevicePlacement-v0`. Spaces,
    rewards, episodes and info are those of [all environments](env.py), and the machine need not
    have the devices. It also takes synthetic graphs and published workloads. Without `noise` it
    is deterministic.

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacementSim-v0", model="inception", devices="cpu+igpu")
    ```

    `gym.make_vec("DevicePlacementSim-v0", num_envs=256)` evaluates all placements of a step
    together.

    ## Priority and Fusion
    With `schedule="event"` an action can decide more than the placement.

    ```python
    env = gym.make(
        "DevicePlacementSim-v0",
        model="inception",
        devices="cpu+2dgpu",
        schedule="event",
        decisions=("placement", "priority", "fusion"),
    )
    ```

    The action space is then a `MultiDiscrete` of a device for each unit, a level from 0 to 7 for
    each unit if `"priority"` is decided, and a bit for each edge of `edge_index` if `"fusion"` is.
    The observation gains the decisions so far.

    | key | shape | type | meaning |
    | --- | --- | --- | --- |
    | `priority` | (N,) | int64 | level of each unit |
    | `fused` | (E,) | int8 | 1 for edges that are to be fused |

    A free device starts the ready unit of the highest level; among equals, the first in
    topological order. A fused edge saves the launch of its reader, and the writing and reading
    of the tensor, where both ends share a device and the graph stays acyclic. Fused operators
    start when all of their inputs have arrived, and their outputs are available when all of them
    have finished. Fusion needs the analytic costs of a model without state.

    `gdp`, `annealing` and `hill-climb` decide all three, and `heft` uses its rank as priority.
    Other agents and solvers, `compare` and studies refuse such an environment.
    [GO's page](../docs/results/go.md) shows what the further decisions are worth.

    ## References
    * Schedules follow OpenVINO's HETERO, Placeto (Addanki et al. 2019), GiPH (Hu et al. 2023),
      Baechi (Jeon et al. 2020) and Tarnawski et al. (2020); see `placement_gym.costs.semantics`.
    * Priority and fusion follow Zhou et al. (2020), "Transferable Graph Optimizers for ML
      Compilers".

    ## Version History
    * v0: Initial version.

    Args:
        decisions: ``"placement"``, and then ``"priority"``, ``"fusion"`` or both.
        kwargs: As for ``SimulatedEnv``.

    Raises:
        UserError: See ``JointEnv``.
    """
    if decides_placement_alone(decisions):
        return SimulatedEnv(**kwargs)
    return JointEnv(decisions, **kwargs)
