"""Episodes of one unit per step, also without evaluations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.common import Rollouts, WithoutGraph, find_stated
from placement_gym.base import FloatArray, IntArray, warn_user
from placement_gym.envs import (
    GRAPH,
    UNITS,
    DevicePlacementEnv,
    MeasuredEnv,
    Observation,
    Observer,
    PerUnitEnv,
    Policy,
    SimulatedEnv,
    StreamEnv,
    find_wrapper,
    observe_unit,
    placement_env,
)


@dataclass(frozen=True, eq=False)
class DryRun:
    """Plays episodes of a policy without evaluations. Saved models name this class.

    Attributes:
        observer: Makes the observations.
        start_ms: Returns the (n_units,) start of each unit by an (n_units,) placement; None in
            measured environments, which have no schedule.
        start: (n_units,) placement at the start of episodes; None is the reference device alone.
    """

    observer: Observer
    start_ms: Callable[[IntArray], FloatArray] | None
    start: IntArray | None = None

    @classmethod
    def from_env(cls, env: DevicePlacementEnv) -> Self:
        return cls(env.observer, None if isinstance(env, MeasuredEnv) else env.backend.start_ms)

    def place(
        self, policy: Policy, observation: dict[str, NDArray[Any]], deterministic: bool
    ) -> IntArray:
        """(N,) or (B, N) final devices for observations of all units at once."""
        actions = np.zeros(observation["placement"].shape, dtype=np.int64)
        rows = np.atleast_2d(actions)
        n_units = self.observer.problem.n_units
        rows[:, :n_units] = self.play(policy, deterministic, len(rows))
        return actions

    def play(self, policy: Policy, deterministic: bool, episodes: int = 1) -> IntArray:
        """(episodes, n_units) final devices of episodes that are played together."""
        problem = self.observer.problem
        start = problem.single(problem.reference_device) if self.start is None else self.start
        placed = np.tile(start, (episodes, 1))
        for unit in range(problem.n_units):
            seen = []
            for placement in placed:
                times_ms = None if self.start_ms is None else self.start_ms(placement)
                seen.append(observe_unit(self.observer, placement, unit, times_ms))
            batch = {key: np.stack([row[key] for row in seen]) for key in seen[0]}
            devices: Any = policy.predict(batch, deterministic=deterministic)[0]
            present = devices < len(problem.devices)
            placed[:, unit] = np.where(present, devices, problem.reference_device)
        return placed


class StreamUnitsEnv(StreamEnv):
    """``StreamEnv`` of one unit per step, with observations and rewards of ``PerUnitEnv``.

    Args:
        member: Number of the environment among successive ones of a vector environment that draw
            the same problems at the same time, so their steps can be compared.
        kwargs: Arguments of ``StreamEnv``.
    """

    def __init__(self, member: int = 0, **kwargs: Any) -> None:
        super().__init__(action=UNITS, observation=GRAPH, **kwargs)
        self.member, self.units = member, self.make_units()
        self.observation_space = self.units.observation_space
        self.action_space = self.units.action_space

    def make_units(self) -> PerUnitEnv:
        """The environment that places the current problem."""
        return PerUnitEnv(
            SimulatedEnv(
                **self.current.sampled.env_kwargs(),
                **dict[str, Any](self.current.sizes),
                observe_devices=True,
                repair=True,
            )
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        # SB3 seeds neighbours with successive numbers
        super().reset(seed=None if seed is None else seed - self.member, options=options)
        self.units = self.make_units()
        return self.units.reset()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        return self.units.step(action)

    def action_masks(self) -> Any:
        return self.units.action_masks()


class UnitRollouts(Rollouts):
    """How Placeto steps environments: one unit per step. Saved models name this class."""

    settings = ()

    def default_steps(self, bases: Sequence[DevicePlacementEnv]) -> int:
        """An episode of the largest graph."""
        return max((base.problem.n_units for base in bases), default=1)

    def step_alone(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """The environment of one unit per step, without the graph in observations.

        If ``env`` places all units at once, the result is a copy that rewards the latency saved.
        """
        if isinstance(env.unwrapped, PerUnitEnv):
            return WithoutGraph(env)
        if wrapper := find_wrapper(env):
            warn_user(
                f"the agent places one unit a step and {wrapper} is around an environment of all "
                "units at once, so it is not called: wrap DevicePlacementPerUnitSim-v0 or "
                "DevicePlacementPerUnit-v0"
            )
        if "reward" in (stated := find_stated(env)):
            warn_user(
                f"reward={stated['reward']!r} is of whole placements and the agent places one unit "
                "a step: it learns from the latency that each step saves; make "
                "DevicePlacementPerUnitSim-v0 with reward='final' to learn from that of the last "
                "step"
            )
        return PerUnitEnv(without_graph(placement_env(env)))


def without_graph(env: DevicePlacementEnv, **sizes: Any) -> DevicePlacementEnv:
    """Copy an environment; observations have no graph, and are padded to ``sizes``."""
    base = copy(env)
    base.observer = replace(base.observer, observe_graph=False, **sizes)
    base.observation_space = base.observer.space()
    return base
