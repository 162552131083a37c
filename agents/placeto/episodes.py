"""Episodes of one unit per step: where they begin, and how one is played without evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import gymnasium as gym

from agents.search.starts import propose_first
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import Policy
from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.observation import Observer
from placement_gym.envs.wrappers import PerUnit, observe_unit


class FromBest(PerUnit):
    """``PerUnit`` whose episodes go on from the fastest placement so far.

    Before the first episode, and after every seed, the first placements are evaluated.

    Args:
        env: The environment to place in.
        begin_with: See ``agents.search.starts.propose_first``.
    """

    def __init__(self, env: gym.Env[Any, Any], begin_with: str) -> None:
        super().__init__(env, start="best")
        self.begin_with = begin_with

    def choose_start(self) -> IntArray:
        """See ``PerUnit``."""
        if self.best is None:
            for assignment in propose_first(self.base, self.begin_with):
                self.assignment = assignment
                measurement = self.base.evaluate(assignment)
                self.assignment = self.base.assignment
                self.update_best(measurement)
        return super().choose_start()


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """An episode of a policy in which no placement is evaluated; it is saved with a model.

    Attributes:
        observer: Makes the observations.
        start_ms: (n_units,) start of each unit in the schedule of an (n_units,) placement; None
            where none is known, as measured environments have no schedule.
        start: (n_units,) placement that episodes start from; None puts all on the reference device.
    """

    observer: Observer
    start_ms: Callable[[IntArray], FloatArray] | None
    start: IntArray | None = None

    @classmethod
    def of(cls, env: DevicePlacementEnv, start: IntArray | None = None) -> Self:
        """Make one of an environment, which is not changed."""
        known = None if isinstance(env, MeasuredEnv) else env.backend.start_ms
        return cls(env.observer, known, start)

    def play(self, policy: Policy, deterministic: bool) -> IntArray:
        """(n_units,) final devices of an episode.

        Args:
            policy: A policy for observations of ``PerUnit``.
            deterministic: Passed to the policy.
        """
        problem = self.observer.problem
        start = problem.single(problem.reference_device) if self.start is None else self.start
        placed = start.copy()
        for unit in range(problem.n_units):
            known = None if self.start_ms is None else self.start_ms(placed)
            observation = observe_unit(self.observer, placed, unit, known)
            device: Any = policy.predict(observation, deterministic=deterministic)[0]
            present = int(device) < len(problem.devices)
            placed[unit] = device if present else problem.reference_device
        return placed
