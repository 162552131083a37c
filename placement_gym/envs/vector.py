"""Vector environments: many placements per step, reset in the step that ends an episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.core import ActType, ObsType
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate
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
from placement_gym.envs.episode import RENDER_MODES, find_start, parse_start
from placement_gym.envs.info import compare_latency
from placement_gym.envs.observation import Observation
from placement_gym.problem import Problem

Info = dict[str, Any]


class SameStepVectorEnv(VectorEnv[ObsType, ActType, NDArray[Any]]):
    """A vector environment that resets in the step that ends an episode."""

    metadata = {  # noqa: RUF012  as VectorEnv declares it
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": RENDER_MODES,
        "render_fps": 1,
    }
    autoreset_mode = AutoresetMode.SAME_STEP
    """An attribute as in ``SyncVectorEnv``, which torchrl reads."""

    def set_spaces(
        self,
        num_envs: int,
        env: gym.Env[Any, Any],
        observation: gym.Space[Any],
        max_episode_steps: int | None,
    ) -> None:
        """Set the spaces of ``num_envs`` copies of an environment with these observations."""
        if max_episode_steps is not None:
            check_integer("max_episode_steps", max_episode_steps, 1)
        self.max_episode_steps = max_episode_steps or np.inf
        self.num_envs, self.render_mode, action = num_envs, env.render_mode, env.action_space
        self.single_observation_space, self.single_action_space = observation, action
        self.observation_space = batch_space(observation, num_envs)
        self.action_space = batch_space(action, num_envs)

    def list_seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        """The seed of each environment, from a list or from the first of consecutive seeds."""
        if seed is None:
            return [None] * self.num_envs
        seeds = range(seed, seed + self.num_envs) if isinstance(seed, int) else seed
        if len(seeds) != self.num_envs:
            raise UserError(f"seed must be a list of {self.num_envs} seeds, not {len(seeds)}")
        return seeds

    def mask(self, values: Info) -> Info:
        """Add to each key its mask, as vector environments return infos."""
        return values | {f"_{key}": np.ones(self.num_envs, dtype=np.bool_) for key in values}

    def report_ends(self, observations: Iterable[Any], info: Info) -> Info:
        """The keys ``final_obs``, (num_envs,) observations, and ``final_info``."""
        final = np.empty(self.num_envs, dtype=object)
        for number, observation in enumerate(observations):
            final[number] = observation
        return self.mask({"final_obs": final, "final_info": info})


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
        """The outcomes of ``num_envs`` equal placements."""
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
        """(num_envs,) latencies that rewards are computed from."""
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
        self.observer = replace(
            env.observer,
            horizon=self.horizon,
            observe_graph=env.observer.observe_graph if observe_graph is None else observe_graph,
        )
        self.set_spaces(num_envs, env, self.observer.space(), max_episode_steps)
        self.first_rows = np.tile(env.reference_row(), (num_envs, 1))
        self.start_episodes()

    def start_episodes(self) -> None:
        """Place all units of every environment on the reference device."""
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
            ends = self.report_ends(iterate(self.observation_space, observation), info)
            observation, info = self.observe(), self.get_info() | ends
        return observation, reward, terminated, truncated, info

    def evaluate(self, rows: IntArray, keep: BoolArray | None = None) -> Outcomes:
        """Evaluate and keep num_envs rows; a repair moves units of ``keep`` only if it must."""
        rows, repaired = self.env.repair_rows(rows, keep)
        latency_ms, feasible = self.evaluate_rows(rows)
        excess_share = np.zeros(self.num_envs)
        if not feasible.all():
            excess_share[~feasible] = self.env.backend.excess_shares(rows[~feasible])
        self.rows = rows
        reference_ms = self.env.reference.reference_ms
        return Outcomes(latency_ms, reference_ms, feasible, repaired, excess_share)

    def evaluate_rows(self, rows: IntArray) -> tuple[FloatArray, BoolArray]:
        """(num_envs,) latencies in ms of rows, not repaired, and whether they are feasible."""
        batch = self.env.backend.evaluate_batch(rows)
        return self.env.reference.reference_ms / batch.speedup, batch.feasible

    def observe(self) -> Observation:
        return self.observer.observe_batch(self.rows, self.steps)

    def get_info(self) -> Info:
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
        """Render the current placement of each environment."""
        if self.render_mode is None:
            return None
        return tuple(self.render_one(number) for number in range(self.num_envs))

    def render_one(self, number: int) -> Any:
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
        self.env.close()


def read_starts(
    options: Mapping[str, Any] | None, problem: Problem, num_envs: int
) -> IntArray | None:
    """(num_envs, n_units) placements from the options of ``reset``: one for all, or one each."""
    start = find_start(options)
    if start is None:
        return None
    if np.ndim(start) < 2:  # a `Placement` or a mapping has no dimension
        return np.tile(parse_start(start, problem), (num_envs, 1))
    if len(start) != num_envs:
        raise UserError(
            f"the option 'placement' of reset has {len(start)} rows for {num_envs} "
            "environments: pass one row, or one for each"
        )
    return np.stack([parse_start(row, problem) for row in start])
