"""The callback that keeps the best placement of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from agents.best import Best, BestPlacements
from agents.common.vec_env import find_bases
from placement_gym.base import BoolArray, IntArray, warn_user
from placement_gym.envs import DevicePlacementEnv, IndexBox, find_semantics, read_graph_id

DECISION_KEYS = ("placement", "priority", "fused")
"""Keys of observations that hold decisions, in the order of an action; see ``ActionLayout``."""


class BestPlacementCallback(BaseCallback):
    """Keeps the fastest feasible placement of each graph, saves it and logs it.

    For each rollout it logs ``placement/feasible``, the share of feasible placements, and
    ``placement/mean_speedup``, their geometric mean; for a single graph also
    ``placement/best_speedup`` and ``placement/best_latency_ms``. It warns once if a rollout has no
    feasible placement. In a measured environment it drops the best placement of a simulated twin.
    Models of ``agents.make`` already have this callback.

    Args:
        path: Placement file, rewritten whenever a faster placement is found; all environments must
            then share one problem. None saves nothing.
        verbose: 1 prints every improvement.

    Attributes:
        best: The fastest placements so far, empty before the first feasible one. This is also
            ``model.best``, which is saved with the model, so a resumed training continues from it.
        feasible: For each step of the rollout, (n_envs,) bool, the placements that were feasible.
    """

    def __init__(self, path: str | Path | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.path = None if path is None else Path(path)
        self.best = BestPlacements()
        self.speedups: list[float] = []
        self.feasible: list[BoolArray] = []
        self.sources: list[str] = []
        self.flat_graphs: list[int] = []
        self.warned = False

    def _on_training_start(self) -> None:
        # A resumed training continues from its best placements, unless the environment has
        # changed: a speed-up that a twin predicted must not hide measured ones.
        env = self.training_env
        self.sources = identify_problems(env)
        if self.sources and not isinstance(env.observation_space, spaces.Dict):
            # Flat observations hold no placement, but environments of one unit a step keep the best
            keeps = env.env_method("has_wrapper_attr", "best", indices=[0])[0]
            self.flat_graphs = [base.observer.graph_id for base in find_bases(env) if keeps]
            self.sources = self.sources if self.flat_graphs else []
        earlier = getattr(self.model, "best", None) or {}
        kept = {graph: best for graph, best in earlier.items() if best.source in self.sources}
        self.best = BestPlacements(kept)
        self.model.best = self.best  # type: ignore[attr-defined]

    def _on_rollout_start(self) -> None:
        self.speedups, self.feasible = [], []

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        feasible = np.array([bool(info.get("feasible", True)) for info in infos])
        self.feasible.append(feasible)
        if not self.sources or not feasible.any():
            return True
        graphs = self.flat_graphs or read_graph_id(self.locals["new_obs"])[:, 0].tolist()
        # Infeasible placements have the latency of a penalty, which would distort the mean.
        for i in np.flatnonzero(feasible).tolist():
            best, speedup = self.best.get(graphs[i]), float(infos[i]["speedup"])
            self.speedups.append(speedup)
            if best is None or speedup > best.speedup:
                self.keep(i, graphs[i])
        return True

    def keep(self, i: int, graph: int) -> None:
        """Keep the decisions of an environment as the best ones of its graph, and save them."""
        env, info = self.training_env, self.locals["infos"][i]
        row = read_decisions(env, self.locals["new_obs"], self.locals["infos"], i)
        problem, view = (env.get_attr(name, i)[0] for name in ("problem", "graph"))
        speedup, latency_ms = float(info["speedup"]), float(info["latency_ms"])
        self.best[graph] = best = Best(row, speedup, latency_ms, problem, view, self.sources[i])
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            best.placement.save(self.path)
        if self.verbose:
            print(f"{self.num_timesteps}: {latency_ms:.3f} ms, x {speedup:.4f}")

    def _on_rollout_end(self) -> None:
        if len(self.best) == 1:
            self.logger.record("placement/best_speedup", self.best.speedup)
            self.logger.record("placement/best_latency_ms", self.best.latency_ms)
        if self.speedups:
            mean = float(np.exp(np.log(self.speedups).mean()))
            self.logger.record("placement/mean_speedup", mean)
        feasible = np.stack(self.feasible)
        if self.sources:
            self.logger.record("placement/feasible", float(feasible.mean()))
        if feasible.any() or self.warned:
            return
        self.warned, row = True, None
        base = next(iter(find_bases(self.training_env)), None)
        if base is not None and self.sources and not self.flat_graphs:
            local = self.locals["new_obs"], self.locals["infos"]
            row = base.layout.parse(read_decisions(self.training_env, *local, 0))
        warn_nothing_fits(feasible.size, base, row)


def read_decisions(
    env: VecEnv, observation: dict[str, NDArray[Any]], infos: list[dict[str, Any]], i: int
) -> IntArray:
    """The (width,) decisions that environment ``i`` evaluated in a step of the vector ``env``."""
    if not isinstance(env.observation_space, spaces.Dict):
        row: IntArray = env.get_attr("best", i)[0][1]
        return row
    # Vector environments reset themselves: after the last step of an episode `new_obs` belongs to
    # the next one, and the evaluated placement is in the terminal observation.
    final: dict[str, NDArray[Any]] | None = infos[i].get("terminal_observation")
    seen = {key: values[i] for key, values in observation.items()} if final is None else final
    keys: Any = env.observation_space
    parts = [
        keys[key].read(seen[key]) if isinstance(keys[key], IndexBox) else seen[key].astype(np.int64)
        for key in DECISION_KEYS
        if key in seen
    ]
    return np.concatenate(parts)


def identify_problems(env: VecEnv) -> list[str]:
    """(num_envs,) fingerprints of the problems, with a suffix where latencies are measured.

    The suffix distinguishes a twin from its measured environment. The list is empty if problems
    change from episode to episode, or there are none.
    """
    if not env.env_method("has_wrapper_attr", "problem", indices=[0])[0]:
        return []
    problems = env.get_attr("problem")
    distinct = {id(problem): problem for problem in problems}  # environments may share one
    known = {key: problem.fingerprint() for key, problem in distinct.items()}
    # environments in other processes cannot be inspected
    measured = [find_semantics(base) is None for base in find_bases(env)] or [False] * len(problems)
    return [
        known[id(problem)] + "-measured" * is_measured
        for problem, is_measured in zip(problems, measured, strict=True)
    ]


def warn_nothing_fits(
    n_placements: int, base: DevicePlacementEnv | None, row: IntArray | None
) -> None:
    """Warn that a whole rollout is infeasible; ``row`` is one of its (width,) decisions."""
    reason = ""
    remedy = (
        "make the environment with repair=True, which evaluates the nearest feasible placement "
        "instead; without it, rewards only reflect the number of excess bytes"
    )
    if base is not None and row is not None:
        reason = f" ({found})" if (found := base.backend.infeasibility(row)) else ""
        # repair can only help if memory is exceeded and it is off
        if base.backend.excess_shares(row[None])[0] <= 0.0:
            remedy = "look at info['error'] of placements in this environment"
        elif base.repair:
            remedy = "repair does not help: give devices more memory"
    warn_user(f"none of {n_placements} placements of a rollout is feasible{reason}: {remedy}")
