"""A callback that keeps the best placement of a training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Image, Logger, TensorBoardOutputFormat
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv, VecEnvWrapper

from placement_gym.backends.wrapper import BackendWrapper
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import warn_user
from placement_gym.problem.placement import Placement
from placement_gym.problem.problem import Problem

PICTURE = "placement/best"
WITHOUT_PICTURES = ("stdout", "log", "json", "csv")
"""Outputs of a logger that cannot show pictures."""


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
    ``placement/feasible`` (the share of feasible placements) of each rollout; of simulated
    environments also ``placement/gap``, the share by which the best latency exceeds a lower bound
    of all placements. TensorBoard gets the best placement as a picture. All environments must share
    one problem. The best placement of a simulated twin is dropped where latencies are measured.

    Args:
        path: Placement file, rewritten whenever a faster placement is found; None saves nothing.
        verbose: 1 prints every improvement.
        bound_s: Time limit of the lower bound, before training; 0 logs no gap.

    Attributes:
        best: The fastest placement so far, None before the first feasible one. It is saved with the
            model, so that a resumed training continues from it.
    """

    def __init__(
        self, path: str | Path | None = None, verbose: int = 0, bound_s: float = 2.0
    ) -> None:
        super().__init__(verbose)
        self.path = None if path is None else Path(path)
        self.best: Best | None = None
        self.seen: list[float] = []
        self.failed = 0
        self.bound_s = bound_s
        self.bound_ms: float | None = None
        self.drawn: Best | None = None
        self.problem = ""

    def _on_training_start(self) -> None:
        earlier_best: Best | None = getattr(self.model, "best_placement", None)
        # A resumed training goes on from its best placement, unless the environment is another one:
        # a speed-up that a twin predicted must not hide those that are measured.
        self.problem = identify_problem(self.training_env)
        self.best = (
            earlier_best
            if earlier_best is not None and earlier_best.problem == self.problem
            else None
        )
        self.bound_ms = compute_bound_ms(self.training_env, self.bound_s)

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        placements = read_placements(self.locals["new_obs"], infos)
        for placement, info in zip(placements, infos, strict=True):
            if not info["feasible"]:
                self.failed += 1
                continue
            self.seen.append(float(info["speedup"]))
            if self.best is None or self.seen[-1] > self.best.speedup:
                self.keep(placement, info)
        return True

    def keep(self, placement: NDArray[Any], info: dict[str, Any]) -> None:
        """Keep a placement as the best one and save it."""
        env: Any = self.training_env
        problem = env.get_attr("problem")[0]
        assignment = placement[: problem.n_units].astype(np.int64)
        speedup, latency_ms = float(info["speedup"]), float(info["latency_ms"])
        self.best = Best(assignment, speedup, latency_ms, self.problem)
        self.model.best_placement = self.best  # type: ignore[attr-defined]
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            Placement.of(problem, assignment, env.get_attr("graph")[0]).save(self.path)
        if self.verbose:
            print(f"{self.num_timesteps}: {self.best.latency_ms:.3f} ms, x {self.best.speedup:.4f}")

    def draw(self, best: Best) -> None:
        """Draw the best placement for TensorBoard, once."""
        # Drawing takes up to a second: once for each improvement, not for each rollout.
        if best is self.drawn or not writes_to_tensorboard(self.logger):
            return
        self.drawn = best
        problem = self.training_env.get_attr("problem")[0]
        title = f"{self.num_timesteps} steps: {best.latency_ms:.4g} ms, x {best.speedup:.3f}"
        record_placement(self.logger, problem, best.assignment, title)

    def _on_rollout_end(self) -> None:
        n_placements = len(self.seen) + self.failed
        if self.best is not None:
            self.logger.record("placement/best_speedup", self.best.speedup)
            self.logger.record("placement/best_latency_ms", self.best.latency_ms)
            self.draw(self.best)
            if self.bound_ms is not None:
                gap = max(self.best.latency_ms / self.bound_ms - 1.0, 0.0)
                self.logger.record("placement/gap", gap)
        if self.seen:
            self.logger.record("placement/mean_speedup", float(np.mean(self.seen)))
        if n_placements:
            self.logger.record("placement/feasible", len(self.seen) / n_placements)
        self.seen, self.failed = [], 0


def read_placements(
    observation: dict[str, NDArray[Any]], infos: Sequence[dict[str, Any]]
) -> list[NDArray[Any]]:
    """Read the placements that a step of vector environments evaluated, padded as observed.

    Args:
        observation: Of the step: where an episode has ended, of the beginning of the next one.
        infos: Of the step.
    """
    # A vector environment resets itself: after the last step of an episode `new_obs` is of the next
    # episode, and the evaluated placement is in the terminal observation.
    finals = [info.get("terminal_observation") for info in infos]
    return [
        placement if final is None else final["placement"]
        for placement, final in zip(observation["placement"], finals, strict=True)
    ]


def identify_problem(env: VecEnv) -> str:
    """Return the fingerprint of a problem, with a suffix if it is measured.

    A twin has the same problem as its measured environment, but other latencies.
    """
    from placement_gym.backends.measured.measuring import MeasuringBackend

    backend = find_backend(env)
    while isinstance(backend, BackendWrapper):
        backend = backend.inner
    fingerprint: str = env.get_attr("problem")[0].fingerprint()
    return f"{fingerprint}-measured" if isinstance(backend, MeasuringBackend) else fingerprint


def find_backend(env: VecEnv) -> Any:
    """Find the backend of the first of several environments; None in other processes."""
    inner = env
    while isinstance(inner, VecEnvWrapper):
        inner = inner.venv
    return None if isinstance(inner, SubprocVecEnv) else inner.get_attr("backend")[0]


def compute_bound_ms(env: VecEnv, time_limit_s: float) -> float | None:
    """Compute a lower bound of the latency of all placements.

    Args:
        env: Environments of one problem.
        time_limit_s: For the solver; 0 computes nothing.

    Returns:
        None where latencies are measured, as their costs are not known, and in other processes.
    """
    from placement_gym.backends.simulated.backend import SimulatedBackend
    from placement_gym.solvers.bounds import lower_bound

    backend = find_backend(env) if time_limit_s > 0.0 else None
    if not isinstance(backend, SimulatedBackend):
        return None
    result = lower_bound(backend.problem, backend.costs, backend.semantics, time_limit_s)
    return result.bound_ms if result.bound_ms > 0.0 else None


def writes_to_tensorboard(logger: Logger) -> bool:
    """Return whether the logger writes to TensorBoard, which shows pictures."""
    return any(isinstance(output, TensorBoardOutputFormat) for output in logger.output_formats)


def record_placement(logger: Logger, problem: Problem, assignment: IntArray, title: str) -> None:
    """Record a placement, drawn on its graph, for the next dump of the logger.

    A picture that cannot be drawn gives a warning rather than ending the training.
    """
    from placement_gym.view.figures.placement import draw_placement
    from placement_gym.view.figures.style import render_pixels

    try:
        pixels = render_pixels(draw_placement(problem, assignment, title))
    except Exception as error:
        warn_user(f"TensorBoard gets no picture of the best placement: {error}")
        return
    logger.record(PICTURE, Image(pixels, "HWC"), exclude=WITHOUT_PICTURES)
