"""Many placements per step: the natively batched vector environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from placement_gym.backends import Measurement, compute_cost_ms
from placement_gym.base import (
    BoolArray,
    FloatArray,
    IntArray,
    UserError,
    check_integer,
    parse_count,
)
from placement_gym.envs import rewards
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import read_starts
from placement_gym.envs.info import compare_latency
from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.observation import Observation
from placement_gym.envs.same_step import Info, SameStepVectorEnv
from placement_gym.envs.simulated_env import SimulatedEnv


@dataclass(frozen=True)
class Outcomes:
    """Latencies of one placement in each environment.

    Attributes:
        latency_ms: (num_envs,).
        reference_ms: Latency of the reference device.
        feasible: (num_envs,) bool.
        repaired: (num_envs,) bool.
        excess_share: (num_envs,) share of its bytes that no device has room for.
    """

    latency_ms: FloatArray
    reference_ms: float
    feasible: BoolArray
    repaired: BoolArray
    excess_share: FloatArray

    @classmethod
    def from_measurement(cls, measurement: Measurement, num_envs: int) -> Outcomes:
        """Those of environments with one placement."""
        return cls(
            np.full(num_envs, measurement.latency_ms),
            measurement.reference_ms,
            np.full(num_envs, measurement.feasible),
            np.full(num_envs, measurement.repaired),
            np.full(num_envs, measurement.excess_share),
        )

    @property
    def speedup(self) -> FloatArray:
        return self.reference_ms / self.latency_ms

    @property
    def cost_ms(self) -> FloatArray:
        """The latencies that rewards see, see ``compute_cost_ms``."""
        costs: FloatArray = compute_cost_ms(self.latency_ms, self.excess_share)
        return costs


class PlacementVectorEnv(
    SameStepVectorEnv[Observation, IntArray], VectorEnv[Observation, IntArray, NDArray[Any]]
):
    """Copies of one environment whose placements its backend evaluates together.

    The copies begin and end their episodes together, and are reset in the step that ends one
    (``AutoresetMode.SAME_STEP``); ``final_obs`` and ``final_info`` hold the end of the episode.
    Infos hold latency_ms, reference_ms, best_single_ms, speedup, speedup_vs_best_single, feasible
    and repaired, (num_envs,) each.

    Args:
        env: The environment; its problem, backend and settings are used.
        num_envs: Placements per step.
        horizon: Placements per episode; None takes the environment's.
        reward: Name of a reward; None takes the environment's.
        observe_graph: Include the graph in observations; None takes the environment's.
        max_episode_steps: Steps after which episodes are truncated, as ``TimeLimit`` does.

    Raises:
        ValueError: ``num_envs``, ``horizon`` or ``max_episode_steps`` is not a positive integer, or
            the reward is unknown.
    """

    def __init__(
        self,
        env: DevicePlacementEnv,
        num_envs: int = 1,
        horizon: int | None = None,
        reward: str | None = None,
        observe_graph: bool | None = None,
        max_episode_steps: int | None = None,
    ) -> None:
        check_integer("num_envs", num_envs, 1)
        self.env = env
        self.horizon = env.horizon if horizon is None else parse_count("horizon", horizon, 1)
        self.reward = env.reward if reward is None else rewards.get_reward(reward)
        graph = env.observer.graph if observe_graph is None else observe_graph
        self.observer = replace(env.observer, horizon=self.horizon, graph=graph)
        self.set_spaces(num_envs, env, self.observer.space(), max_episode_steps)
        self.first_rows = np.tile(env.reference_row(), (num_envs, 1))
        self.start_episodes()

    def start_episodes(self) -> None:
        """Place everything on the reference device, in every environment."""
        self.rows = self.first_rows
        self.steps = 0
        self.outcomes = Outcomes.from_measurement(self.env.reference, self.num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, Info]:
        """Start all episodes; seeds go to the shared environment.

        Args:
            seed: A seed for each environment, or the first of consecutive ones.
            options: ``{"placement": ...}`` as for ``DevicePlacementEnv``, for all environments or
                a row of device indices for each. Later episodes begin with the reference device.

        Raises:
            ValueError: There is no such option, or not one seed or placement per environment.
        """
        if options and "reset_mask" in options:
            raise UserError("all environments are reset together: remove 'reset_mask'")
        if seed is not None:
            self.seed(self.list_seeds(seed))
        starts = read_starts(options, self.env.problem, self.num_envs)
        self.start_episodes()
        if starts is not None:
            self.outcomes = self.evaluate(starts)
        return self.observe(), self.get_info()

    def seed(self, seeds: Sequence[int | None]) -> None:
        """Seed the shared environment by the first seed."""
        if seeds[0] is not None:
            self.env.reset(seed=seeds[0])

    def step(self, actions: IntArray) -> tuple[Observation, FloatArray, BoolArray, BoolArray, Info]:
        """Place every unit in every environment.

        Args:
            actions: (num_envs, N) device indices, then priority levels and fusion bits.

        Raises:
            ValueError: The actions have another shape or range.
        """
        rows = self.env.layout.parse(actions, self.num_envs)
        previous, self.outcomes = self.outcomes, self.evaluate(rows)
        self.steps += 1
        reward = np.asarray(self.reward(self.outcomes, previous), dtype=np.float64)
        if self.render_mode == "human":
            self.render()
        terminated = np.full(self.num_envs, self.steps >= self.horizon)
        truncated = np.full(self.num_envs, self.steps >= self.max_episode_steps)
        observation, info = self.observe(), self.get_info()
        if terminated[0] or truncated[0]:
            self.start_episodes()
            ends = self.report_ends(self.unbatch(observation), info)
            observation, info = self.observe(), self.get_info() | ends
        return observation, reward, terminated, truncated, info

    def evaluate(self, rows: IntArray, keep: BoolArray | None = None) -> Outcomes:
        """Evaluate placements, repaired where the environment does; they become the current ones.

        Args:
            rows: (num_envs, n_units) device indices, or (num_envs, width) rows of all decisions.
            keep: (num_envs, n_units) bool, units that a repair moves only if it must.
        """
        rows, repaired = self.env.repair_rows(rows, keep)
        latency_ms, feasible = self.evaluate_rows(rows)
        excess_share = np.zeros(self.num_envs)
        if not feasible.all():
            excess_share[~feasible] = self.env.backend.excess_shares(rows[~feasible])
        self.rows = rows
        reference_ms = self.env.reference.reference_ms
        return Outcomes(latency_ms, reference_ms, feasible, repaired, excess_share)

    def evaluate_rows(self, rows: IntArray) -> tuple[FloatArray, BoolArray]:
        """(num_envs,) latencies in ms of rows as they are, and whether these are feasible."""
        batch = self.env.backend.evaluate_batch(rows)
        return self.env.reference.reference_ms / batch.speedup, batch.feasible

    def observe(self) -> Observation:
        """Batched observations; fresh arrays, as large as ``num_envs`` copies of the graph."""
        return self.observer.observe_batch(self.rows, self.steps)

    def unbatch(self, observation: Observation) -> list[Observation]:
        """(num_envs,) the observation of each environment."""
        rows = zip(*observation.values(), strict=True)
        return [dict(zip(observation, values, strict=True)) for values in rows]

    def get_info(self) -> Info:
        """The infos of the current placements, each key with its mask."""
        outcomes = self.outcomes
        reference_ms = np.full(self.num_envs, outcomes.reference_ms)
        best_single, _ = self.env.singles.best_speedups
        return self.mask(
            {
                **compare_latency(outcomes.latency_ms.copy(), reference_ms, best_single),
                "feasible": outcomes.feasible.copy(),
                "repaired": outcomes.repaired.copy(),
            }
        )

    def render(self) -> tuple[Any, ...] | None:
        """The current placement of each environment, as ``DevicePlacementEnv.render``."""
        if self.render_mode is None:
            return None
        return tuple(self.render_one(number) for number in range(self.num_envs))

    def render_one(self, number: int) -> Any:
        """The current placement of one environment."""
        env, outcomes, row = self.env, self.outcomes, self.rows[number]
        assignment, error = row[: env.problem.n_units], ""
        if not outcomes.feasible[number]:
            error = env.backend.infeasibility(row) or "it failed"
        measurement = Measurement(
            float(outcomes.latency_ms[number]),
            outcomes.reference_ms,
            n_submodels=env.problem.count_submodels(assignment),
            error=error,
        )
        return env.painter.render(self.render_mode, env.problem, assignment, measurement)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the shared environment."""
        self.env.close()


# skrl knows a library's environments by their direct base classes: ``VectorEnv`` is named again.
class MeasuredVectorEnv(PlacementVectorEnv, VectorEnv[Observation, IntArray, NDArray[Any]]):
    """``gym.make_vec("DevicePlacement-v0", num_envs=k)``: k placements, one process that measures.

    The placements of a step are measured one after another, each with the same compiled reference
    device, and the devices are measured alone once, when it is made.

    Args:
        num_envs: Placements per step.
        max_episode_steps: See ``PlacementVectorEnv``.
        kwargs: As for ``MeasuredEnv``.

    Raises:
        ValueError: ``num_envs`` is not a positive integer, or an argument of ``MeasuredEnv`` is
            wrong.
    """

    def __init__(
        self, num_envs: int = 1, max_episode_steps: int | None = None, **kwargs: Any
    ) -> None:
        check_integer("num_envs", num_envs, 1)
        super().__init__(MeasuredEnv(**kwargs), num_envs, max_episode_steps=max_episode_steps)


class SimulatedVectorEnv(PlacementVectorEnv, VectorEnv[Observation, IntArray, NDArray[Any]]):
    """``gym.make_vec("DevicePlacementSim-v0", num_envs=k)``: equal to k single environments.

    Latencies, rewards, observations and noise are those of k single environments with the same
    seeds.

    Args:
        num_envs: Placements per step.
        max_episode_steps: See ``PlacementVectorEnv``.
        kwargs: As for ``SimulatedEnv``.

    Raises:
        ValueError: ``num_envs`` is not a positive integer, or an argument of ``SimulatedEnv`` is
            wrong.
    """

    def __init__(
        self, num_envs: int = 1, max_episode_steps: int | None = None, **kwargs: Any
    ) -> None:
        env = SimulatedEnv(**kwargs)
        super().__init__(env, num_envs, max_episode_steps=max_episode_steps)
        self.exact = env.exact
        self.noise_rngs = [np.random.default_rng() for _ in range(num_envs)]

    def seed(self, seeds: Sequence[int | None]) -> None:
        """Seed the noise of each environment; None leaves a generator unchanged."""
        for i, seed in enumerate(seeds):
            if seed is not None:
                self.noise_rngs[i] = np.random.default_rng(seed)

    def evaluate_rows(self, rows: IntArray) -> tuple[FloatArray, BoolArray]:
        """As ``PlacementVectorEnv.evaluate_rows``, with noise as a single environment has it."""
        latency_ms, feasible = self.exact.evaluate_batch_exactly(rows)
        if self.exact.noise:
            for i in np.flatnonzero(feasible):
                noise = self.exact.noise * self.noise_rngs[i].standard_normal()
                latency_ms[i] *= np.exp(noise)
        return latency_ms, feasible
