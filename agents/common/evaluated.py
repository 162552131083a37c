"""Evaluations of a training: the best placements, and the feasibility of each rollout."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from placement_gym.base.arrays import BoolArray, IntArray
from placement_gym.base.errors import warn_user
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.scaling import read_graph_id
from placement_gym.problem.decisions import FUSION, PLACEMENT, PRIORITY

OBSERVED = {PLACEMENT: "placement", PRIORITY: "priority", FUSION: "fused"}
"""The key of observations for each decision."""
BestRows = dict[int, tuple[float, IntArray]]
"""Speed-up and padded row of decisions of the best placement, by ``graph_id``."""


class Evaluated:
    """The best feasible placement of each graph, and the feasible ones of a rollout.

    Saved models name this class.

    Attributes:
        best: The best placements, as they were evaluated.
        rollout: Of each step of the rollout (n_envs,) bool, which placements were feasible.
    """

    def __init__(self) -> None:
        self.best: BestRows = {}
        self.rollout: list[BoolArray] = []

    @property
    def feasible(self) -> BoolArray:
        """(n_steps, n_envs) bool, which placements of the rollout were feasible."""
        return np.stack(self.rollout)

    def remember(self, graph: int, row: NDArray[Any], speedup: float) -> None:
        """Keep a feasible (width,) row of decisions if it is the best of its graph."""
        if speedup >= self.best.get(graph, (0.0,))[0]:
            self.best[graph] = speedup, row.astype(np.int64)


class WatchRollouts(BaseCallback):
    """Records the evaluations of a training, and warns once of a rollout that is all infeasible.

    Args:
        evaluated: The record.
        base: The placement environment whose best placements are recorded; None if problems change,
            or are in other processes.
    """

    def __init__(self, evaluated: Evaluated, base: DevicePlacementEnv | None) -> None:
        super().__init__()
        self.evaluated, self.base = evaluated, base
        self.keys = [OBSERVED[name] for name in base.decisions] if base else []
        self.warned = False

    def _on_rollout_start(self) -> None:
        self.evaluated.rollout.clear()

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        feasible = np.array([bool(info.get("feasible", True)) for info in infos])
        self.evaluated.rollout.append(feasible)
        for i in np.flatnonzero(feasible).tolist() if self.base else ():
            graph, row = self.read(i)
            self.evaluated.remember(graph, row, float(infos[i]["speedup"]))
        return True

    def read(self, i: int) -> tuple[int, IntArray]:
        """Read the ``graph_id`` and the row of decisions of an environment's step."""
        # After the last step of an episode, `new_obs` is of the next episode.
        observation = self.locals["infos"][i].get("terminal_observation")
        if observation is None:
            observation = {key: values[i] for key, values in self.locals["new_obs"].items()}
        assert self.base is not None
        shares = self.base.observer.index_spaces
        row = [
            shares[key].read(observation[key]) if key in shares else observation[key]
            for key in self.keys
        ]
        return int(read_graph_id(observation)[0]), np.concatenate(row)

    def _on_rollout_end(self) -> None:
        feasible = self.evaluated.feasible
        if not feasible.any() and not self.warned:
            self.warned = True
            row = self.base.layout.parse(self.read(0)[1]) if self.base else None
            warn_nothing_fits(feasible.size, self.base, row)


def warn_nothing_fits(
    n_placements: int, base: DevicePlacementEnv | None = None, row: IntArray | None = None
) -> None:
    """Warn that a whole rollout is infeasible, with a remedy."""
    reason, by_memory, repairs = "", True, False
    if base is not None and row is not None:
        reason = base.backend.infeasibility(row)
        by_memory, repairs = bool(base.backend.excess_shares(row[None])[0] > 0.0), base.repair
    # The remedy depends on the reason: repair helps against memory alone, and only if it is off.
    remedy = "look at info['error'] of placements in this environment"
    if by_memory and repairs:
        remedy = "repair does not help: give devices more memory"
    elif by_memory:
        remedy = (
            "make the environment with repair=True, which evaluates the nearest feasible placement "
            "instead; without it, rewards only reflect the number of excess bytes"
        )
    because = f" ({reason})" if reason else ""
    warn_user(f"none of {n_placements} placements of a rollout is feasible{because}: {remedy}")
