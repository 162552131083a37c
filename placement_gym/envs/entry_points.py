"""Further entry points of ``gym.make`` and ``gym.make_vec``: one unit per step, many placements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from placement_gym.base import BoolArray, FloatArray, IntArray, check_integer, suggest_keywords
from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.observation import Observation
from placement_gym.envs.per_unit import PerUnitEnv
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.envs.vector import PlacementVectorEnv


def measured_per_unit(
    start: str | None = None,
    reward: str | None = None,
    observe: str = "graph",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnitEnv:
    """``DevicePlacementPerUnit-v0``: places one unit per step, measured with OpenVINO.

    Args:
        start: See ``PerUnitEnv``.
        reward: See ``PerUnitEnv``.
        observe: See ``PerUnitEnv``.
        final_reward: The [reward](env.py#rewards) that ``reward="final"`` pays.
        kwargs: As for [DevicePlacement-v0](env.py#arguments), where ``observe="flat"`` and
            ``reward="saving"`` need ``costs="profiled"``; or simulated as for
            [DevicePlacementSim-v0](simulated_env.py#arguments).
    """
    return PerUnitEnv(MeasuredEnv(reward=final_reward, **kwargs), start, reward, observe)


def simulated_per_unit(
    start: str | None = None,
    reward: str | None = None,
    observe: str = "graph",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnitEnv:
    """``DevicePlacementPerUnitSim-v0``: ``measured_per_unit`` with ``SimulatedEnv``."""
    return PerUnitEnv(SimulatedEnv(reward=final_reward, **kwargs), start, reward, observe)


measured_per_unit = suggest_keywords(measured_per_unit, MeasuredEnv)
simulated_per_unit = suggest_keywords(simulated_per_unit, SimulatedEnv)


# skrl recognises vector environments by their direct base classes: ``VectorEnv`` is named again.
class MeasuredVectorEnv(PlacementVectorEnv, VectorEnv[Observation, IntArray, NDArray[Any]]):
    """``gym.make_vec("DevicePlacement-v0", num_envs=k)``: k measured placements per step.

    One process measures them one after another, all with the same compiled reference device. Single
    devices are measured once, when the environment is made.

    Args:
        num_envs: Placements per step.
        max_episode_steps: See ``PlacementVectorEnv``.
        kwargs: As for ``MeasuredEnv``, which raises errors about them.
    """

    def __init__(
        self, num_envs: int = 1, max_episode_steps: int | None = None, **kwargs: Any
    ) -> None:
        check_integer("num_envs", num_envs, 1)
        super().__init__(MeasuredEnv(**kwargs), num_envs, max_episode_steps=max_episode_steps)


class SimulatedVectorEnv(PlacementVectorEnv, VectorEnv[Observation, IntArray, NDArray[Any]]):
    """``gym.make_vec("DevicePlacementSim-v0", num_envs=k)``: k simulated placements per step.

    Latencies, rewards, observations and noise equal those of k single environments with the same
    seeds.

    Args:
        num_envs: Placements per step.
        max_episode_steps: See ``PlacementVectorEnv``.
        kwargs: As for ``SimulatedEnv``, which raises errors about them.
    """

    def __init__(
        self, num_envs: int = 1, max_episode_steps: int | None = None, **kwargs: Any
    ) -> None:
        env = SimulatedEnv(**kwargs)
        super().__init__(env, num_envs, max_episode_steps=max_episode_steps)
        self.exact = env.exact
        self.noise_rngs = [np.random.default_rng() for _ in range(num_envs)]

    def seed(self, seeds: Sequence[int | None]) -> None:
        """Seed the noise of each environment; None leaves its generator unchanged."""
        for i, seed in enumerate(seeds):
            if seed is not None:
                self.noise_rngs[i] = np.random.default_rng(seed)

    def evaluate_rows(self, rows: IntArray) -> tuple[FloatArray, BoolArray]:
        """(num_envs,) latencies with the noise of single environments, and feasibility."""
        latency_ms, feasible = self.exact.evaluate_batch_exactly(rows)
        if self.exact.noise:
            for i in np.flatnonzero(feasible):
                noise = self.exact.noise * self.noise_rngs[i].standard_normal()
                latency_ms[i] *= np.exp(noise)
        return latency_ms, feasible
