"""Placements that agents predict, and the best that they have evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError, warn_user
from placement_gym.envs.placement_env import find_wrapper, placement_env
from placement_gym.envs.scaling import read_current_unit
from placement_gym.problem.placement import Placement
from placement_gym.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Best:
    """The fastest feasible placement that was evaluated. Saved models name this class.

    Attributes:
        row: (width,) its decisions, as an action has them.
        speedup: Relative to the reference device.
        latency_ms: Of one inference.
        problem: Whose units it places.
        view: View of the operators, ``"folded"`` or ``"raw"``.
        source: Where its latency is from, see ``callbacks.identify_problem``.
    """

    row: IntArray
    speedup: float
    latency_ms: float
    problem: Problem
    view: str = "folded"
    source: str = ""

    @property
    def placement(self) -> Placement:
        """The placement, to save or to compile with."""
        return Placement.of(self.problem, self.row[: self.problem.n_units], self.view)


class BestPlacements(dict[int, Best]):
    """The best placement of each graph, by ``graph_id``. Saved models name this class.

    Where there is one graph, the attributes of its placement are those of the whole::

        model.best.placement.save("placement.json")
    """

    @property
    def only(self) -> Best:
        """The best placement of the one graph.

        Raises:
            UserError: There is none, or there are several graphs.
        """
        if len(self) != 1:
            graphs = ", ".join(f"best[{graph}]" for graph in self)
            raise UserError(
                f"there is a best placement of each graph: use {graphs}"
                if self
                else "no feasible placement has been evaluated: call learn, for more steps"
            )
        return next(iter(self.values()))

    @property
    def placement(self) -> Placement:
        """See ``Best``."""
        return self.only.placement

    @property
    def speedup(self) -> float:
        """See ``Best``."""
        return self.only.speedup

    @property
    def latency_ms(self) -> float:
        """See ``Best``."""
        return self.only.latency_ms


class FixedPlacement:
    """Predicts the same placement for every observation.

    Args:
        assignment: (n_units,) device indices; or (width,) a row of all decisions, see
            ``placement_gym.problem.decisions``.
    """

    def __init__(self, assignment: IntArray) -> None:
        self.assignment = assignment

    def predict(
        self,
        observation: dict[str, NDArray[Any]],
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[IntArray, Any]:
        """The placement; in an environment of one unit per step, the current unit's device."""
        if "current_unit" in observation:
            return self.assignment[read_current_unit(observation)[..., 0]], state
        if len(self.assignment) > observation["placement"].shape[-1]:
            return self.assignment.copy(), state
        action = np.zeros(observation["placement"].shape, dtype=np.int64)
        action[..., : len(self.assignment)] = self.assignment
        return action, state


class BestEvaluated(FixedPlacement):
    """Predicts the fastest feasible placement that it has evaluated, before the reference device's.

    Args:
        env: The environment that evaluates. A warning names a wrapper around it, whose reward it
            does not see.
        joint: Whether it makes all decisions of an environment, not only the placement.
    """

    predicts_best = True
    """False if it predicts something else. A comparison evaluates that placement, too, as the last
    of the budget."""

    def __init__(self, env: gym.Env[Any, Any], joint: bool = False) -> None:
        self.base = placement_env(env, joint)
        super().__init__(self.base.reference_row())
        self.best_speedup, self.best_row = 0.0, self.assignment
        if wrapper := find_wrapper(env):
            warn_user(
                f"{type(self).__name__} compares latencies: {wrapper} does not change these, and "
                "may not be called; a learned agent, as hsdag, learns from its rewards"
            )

    def keep(self, row: IntArray, speedup: float) -> None:
        """Keep a feasible (width,) row of decisions if it is the fastest."""
        if speedup > self.best_speedup:
            self.best_speedup, self.best_row = speedup, row.copy()
            self.assignment = self.best_row if self.predicts_best else self.assignment

    @property
    def best(self) -> Best:
        """The fastest feasible placement.

        Raises:
            UserError: None has been evaluated.
        """
        if not self.best_speedup:
            return BestPlacements().only
        base, speedup = self.base, self.best_speedup
        latency_ms = base.reference.reference_ms / speedup
        return Best(self.best_row, speedup, latency_ms, base.problem, base.graph)
