"""What a training has evaluated: its best placements, and whether any of a rollout fits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from placement_gym.base.arrays import BoolArray, IntArray
from placement_gym.base.errors import warn_user
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.problem.decisions import FUSION, PLACEMENT, PRIORITY

OBSERVED = {PLACEMENT: "placement", PRIORITY: "priority", FUSION: "fused"}
"""The key of observations for each decision."""
BestRows = dict[int, tuple[float, IntArray]]
"""Speed-up and padded row of decisions of the best placement, by ``graph_id``."""


class Evaluated:
    """The best feasible placement of each graph, and what fits of a rollout.

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
        """Keep a feasible (width,) row of decisions if none of its graph was better."""
        if speedup >= self.best.get(graph, (0.0,))[0]:
            self.best[graph] = speedup, row.astype(np.int64)


class WatchRollouts(BaseCallback):
    """Keeps what a training evaluates, and warns once if nothing of a whole rollout fits.

    Args:
        evaluated: Where it is kept.
        base: The placement environment, of which best placements are kept; None if problems
            change, or are in other processes.
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
        # where an episode has ended, the observation is of the next one
        seen = self.locals["infos"][i].get("terminal_observation")
        if seen is None:
            seen = {key: values[i] for key, values in self.locals["new_obs"].items()}
        return int(seen["graph_id"][0]), np.concatenate([seen[key] for key in self.keys])

    def _on_rollout_end(self) -> None:
        feasible = self.evaluated.feasible
        if not feasible.any() and not self.warned:
            self.warned = True
            row = self.base.layout.parse(self.read(0)[1]) if self.base else None
            warn_nothing_fits(feasible.size, self.base, row)


def warn_nothing_fits(
    n_placements: int, base: DevicePlacementEnv | None = None, row: IntArray | None = None
) -> None:
    """Warn that none of some placements is feasible, and say what helps.

    Args:
        n_placements: How many.
        base: Their environment, if it is known.
        row: One of them.
    """
    reason, by_memory, repairs = "", True, False
    if base is not None and row is not None:
        reason = base.backend.infeasibility(row)
        by_memory, repairs = bool(base.backend.excess_shares(row[None])[0] > 0.0), base.repair
    remedy = "look at info['error'] of placements in this environment"
    if by_memory and repairs:
        remedy = "not even repaired ones: give devices more memory"
    elif by_memory:
        remedy = (
            "make the environment with repair=True, which evaluates the nearest placement that "
            "fits instead; without it, rewards say how many bytes are too many, and no more"
        )
    because = f" ({reason})" if reason else ""
    warn_user(f"none of {n_placements} placements of a rollout is feasible{because}: {remedy}")
