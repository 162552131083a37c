"""A callback that keeps the best placement of a training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv, VecEnvWrapper

from placement_gym.backends.wrapper import BackendWrapper
from placement_gym.base.arrays import IntArray
from placement_gym.problem.placement import Placement


class Best(NamedTuple):
    """An evaluated placement. Saved models name this class.

    Attributes:
        assignment: (n_units,) device of each unit.
        speedup: Relative to the reference device.
        latency_ms: Of one inference.
        problem: Identifies the problem, see ``identify_problem``.
    """

    assignment: IntArray
    speedup: float
    latency_ms: float
    problem: str


class BestPlacementCallback(BaseCallback):
    """Keeps the fastest feasible placement, saves it and logs it.

    Logs ``placement/best_speedup``, ``placement/best_latency_ms``, ``placement/mean_speedup`` and
    ``placement/feasible`` (the share of feasible placements) of each rollout. All environments must
    share one problem. What a simulated twin evaluated is forgotten where latencies are measured.

    Args:
        path: Placement file, rewritten whenever a faster placement is found; None saves nothing.
        verbose: 1 prints every improvement.

    Attributes:
        best: The fastest placement so far, None before the first feasible one. It is saved with the
            model, so that a resumed training continues from it.
    """

    def __init__(self, path: str | Path | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.path = None if path is None else Path(path)
        self.best: Best | None = None
        self.seen: list[float] = []
        self.failed = 0
        self.problem = ""

    def _on_training_start(self) -> None:
        earlier_best: Best | None = getattr(self.model, "best_placement", None)
        # A resumed training goes on from its best placement, unless the environment is another one:
        # a speed-up that a twin predicted must not hide those that are measured.
        self.problem = identify_problem(self.training_env)
        is_same = earlier_best is not None and earlier_best.problem == self.problem
        self.best = earlier_best if is_same else None

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        space = self.training_env.observation_space
        placements = read_placements(space, self.locals["new_obs"], infos)
        for placement, info in zip(placements, infos, strict=True):
            # Infeasible placements have the latency of a penalty, which would distort the mean.
            if not info["feasible"]:
                self.failed += 1
                continue
            self.seen.append(float(info["speedup"]))
            if self.best is None or self.seen[-1] > self.best.speedup:
                self.keep(placement, info)
        return True

    def keep(self, placement: IntArray, info: dict[str, Any]) -> None:
        """Keep a placement as the best one and save it."""
        env: Any = self.training_env
        problem = env.get_attr("problem")[0]
        assignment = placement[: problem.n_units]
        speedup, latency_ms = float(info["speedup"]), float(info["latency_ms"])
        self.best = Best(assignment, speedup, latency_ms, self.problem)
        self.model.best_placement = self.best  # type: ignore[attr-defined]
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            Placement.of(problem, assignment, env.get_attr("graph")[0]).save(self.path)
        if self.verbose:
            print(f"{self.num_timesteps}: {self.best.latency_ms:.3f} ms, x {self.best.speedup:.4f}")

    def _on_rollout_end(self) -> None:
        n_placements = len(self.seen) + self.failed
        if self.best is not None:
            self.logger.record("placement/best_speedup", self.best.speedup)
            self.logger.record("placement/best_latency_ms", self.best.latency_ms)
        if self.seen:
            self.logger.record("placement/mean_speedup", float(np.mean(self.seen)))
        if n_placements:
            self.logger.record("placement/feasible", len(self.seen) / n_placements)
        self.seen, self.failed = [], 0


def read_placements(
    space: Any, observation: dict[str, NDArray[Any]], infos: Sequence[dict[str, Any]]
) -> list[IntArray]:
    """Read the placements that a step of vector environments evaluated, padded as observed.

    Args:
        space: Of observations.
        observation: Of the step: where an episode has ended, of the beginning of the next one.
        infos: Of the step.
    """
    # A vector environment resets itself: after the last step of an episode `new_obs` is of the next
    # episode, and the evaluated placement is in the terminal observation.
    finals = [info.get("terminal_observation") for info in infos]
    return [
        space["placement"].read(placement if final is None else final["placement"])
        for placement, final in zip(observation["placement"], finals, strict=True)
    ]


def identify_problem(env: VecEnv) -> str:
    """Return the fingerprint of a problem, with a suffix if it is measured.

    A twin has the same problem as its measured environment, but other latencies.
    """
    from placement_gym.backends.measured.measuring import MeasuringBackend

    inner = env
    while isinstance(inner, VecEnvWrapper):
        inner = inner.venv
    # what runs in other processes is not known
    backend = None if isinstance(inner, SubprocVecEnv) else inner.get_attr("backend")[0]
    while isinstance(backend, BackendWrapper):
        backend = backend.inner
    fingerprint: str = env.get_attr("problem")[0].fingerprint()
    return f"{fingerprint}-measured" if isinstance(backend, MeasuringBackend) else fingerprint
