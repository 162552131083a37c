"""Many placements a step: the natively batched vector environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from placement_gym import rewards
from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.entry_points import SimulatedEnv
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError
from placement_gym.observation import Observation

Info = dict[str, Any]


@dataclass(frozen=True)
class Outcomes:
    """Latencies of one placement in each environment.

    Attributes:
        latency_ms: (num_envs,).
        reference_ms: Of the reference device.
        feasible: (num_envs,) bool.
    """

    latency_ms: FloatArray
    reference_ms: float
    feasible: BoolArray

    @property
    def speedup(self) -> FloatArray:
        return self.reference_ms / self.latency_ms


class PlacementVectorEnv(VectorEnv[Observation, IntArray, NDArray[Any]]):
    """k placements of one environment a step, evaluated together by its backend.

    The environments begin and end their episodes together, and are reset in the step that ends one
    (``AutoresetMode.SAME_STEP``); ``final_obs`` and ``final_info`` then tell how it ended. Infos
    hold latency_ms, reference_ms, best_single_ms, speedup, speedup_vs_best_single and feasible,
    (k,) each.

    Args:
        env: Whose problem, backend and settings are used.
        num_envs: Placements a step.
        horizon: Placements an episode; None takes the environment's.
        reward: Name of a reward; None takes the environment's.
        observe_graph: Whether observations carry the graph; None takes the environment's.

    Raises:
        ValueError: ``num_envs`` or ``horizon`` is not positive, or the reward is unknown.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  as VectorEnv declares it

    def __init__(
        self,
        env: DevicePlacementEnv,
        num_envs: int = 1,
        horizon: int | None = None,
        reward: str | None = None,
        observe_graph: bool | None = None,
    ) -> None:
        if num_envs < 1 or (horizon is not None and horizon < 1):
            raise UserError(
                f"num_envs and horizon must be at least 1, not {num_envs} and {horizon}"
            )
        self.env = env
        self.num_envs = num_envs
        self.horizon = env.horizon if horizon is None else horizon
        self.reward = env.reward if reward is None else rewards.get_reward(reward)
        graph = env.observer.graph if observe_graph is None else observe_graph
        self.observer = replace(env.observer, horizon=self.horizon, graph=graph)
        self.single_observation_space = self.observer.space()
        self.single_action_space = env.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.start()

    def start(self) -> None:
        """Everything on the reference device, in every environment."""
        problem, reference = self.env.problem, self.env.reference
        self.assignments = np.tile(problem.single(problem.reference_device), (self.num_envs, 1))
        self.steps = 0
        self.last = Outcomes(
            np.full(self.num_envs, reference.latency_ms),
            reference.reference_ms,
            np.ones(self.num_envs, dtype=np.bool_),
        )

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, Info]:
        """Start all episodes; seeds go to the environment that is shared.

        Raises:
            ValueError: ``options`` asks to reset some environments only, or there are not as
                many seeds as environments.
        """
        if options and "reset_mask" in options:
            raise UserError("the environments run in step: all are reset, or none")
        if seed is not None:
            seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
            if len(seeds) != self.num_envs:
                raise UserError(f"seeds are one for each environment, not {len(seeds)}")
            self.seed(seeds)
        self.start()
        return self.observe(), self.info()

    def seed(self, seeds: Sequence[int | None]) -> None:
        """Seed what is random: here the environment, by the first seed."""
        if seeds[0] is not None:
            self.env.reset(seed=seeds[0])

    def step(self, actions: IntArray) -> tuple[Observation, FloatArray, BoolArray, BoolArray, Info]:
        """Place every unit in every environment.

        Args:
            actions: (num_envs, N) device indices.

        Raises:
            ValueError: The actions have another shape or range.
        """
        self.assignments = self.checked(actions)
        before, self.last = self.last, self.evaluate()
        self.steps += 1
        reward = np.asarray(self.reward(self.last, before), dtype=np.float64)
        done = self.steps >= self.horizon
        observation, info = self.observe(), self.info()
        if done:
            self.start()
            final = self.rows(observation), info
            observation, info = self.observe(), self.info()
            always = np.ones(self.num_envs, dtype=np.bool_)
            info |= {"final_obs": final[0], "_final_obs": always}
            info |= {"final_info": final[1], "_final_info": always.copy()}
        terminated = np.full(self.num_envs, done)
        return observation, reward, terminated, np.zeros_like(terminated), info

    def evaluate(self) -> Outcomes:
        """Of the current assignments."""
        speedup, feasible = self.env.backend.evaluate_batch(self.assignments)
        reference_ms = self.env.reference.reference_ms
        return Outcomes(reference_ms / speedup, reference_ms, feasible)

    def checked(self, actions: Any) -> IntArray:
        """(num_envs, n_units) assignments that the actions mean, without padding."""
        given = np.asarray(actions)
        n_nodes, n_devices = self.observer.n_nodes, len(self.env.problem.devices)
        fits = given.dtype.kind in "iu" and given.shape == (self.num_envs, n_nodes)
        if not fits or given.min() < 0 or given.max() >= n_devices:
            raise UserError(
                f"actions are ({self.num_envs}, {n_nodes}) device indices from 0 to "
                f"{n_devices - 1}, not {actions!r}"
            )
        return given[:, : self.env.problem.n_units].astype(np.int64)

    def observe(self) -> Observation:
        """Observations side by side; fresh arrays, as large as k copies of the graph."""
        return self.observer.observe_batch(self.assignments, self.steps)

    def rows(self, observation: Observation) -> NDArray[np.object_]:
        """(num_envs,) each environment's own observation."""
        rows = np.empty(self.num_envs, dtype=object)
        for i in range(self.num_envs):
            rows[i] = {key: value[i] for key, value in observation.items()}
        return rows

    def info(self) -> Info:
        """What is known of the current placements, each key with its mask."""
        singles, last = self.env.singles, self.last
        best_single = singles.fastest().speedup
        values = {
            "latency_ms": last.latency_ms.copy(),
            "reference_ms": np.full(self.num_envs, last.reference_ms),
            "best_single_ms": np.full(self.num_envs, last.reference_ms / best_single),
            "speedup": last.speedup,
            "speedup_vs_best_single": last.speedup / best_single,
            "feasible": last.feasible.copy(),
        }
        return values | {f"_{key}": np.ones(self.num_envs, dtype=np.bool_) for key in values}

    def close_extras(self, **kwargs: Any) -> None:
        """Close the shared environment."""
        self.env.close()


class SimulatedVectorEnv(PlacementVectorEnv):
    """``gym.make_vec("DevicePlacementSim-v0", num_envs=k)``: equal to k single environments.

    Latencies, rewards, observations and the noise of each environment are those of k single ones
    with the same seeds.

    Args:
        num_envs: Placements a step.
        kwargs: As for ``SimulatedEnv``, ``render_mode`` aside.

    Raises:
        ValueError: ``num_envs`` is not positive, or an argument of ``SimulatedEnv`` is wrong.
    """

    def __init__(self, num_envs: int = 1, **kwargs: Any) -> None:
        env = SimulatedEnv(**kwargs)
        super().__init__(env, num_envs)
        self.simulated = env.simulated
        self.noise_rngs = [np.random.default_rng() for _ in range(num_envs)]

    def seed(self, seeds: Sequence[int | None]) -> None:
        """Start the noise of the environments that have a seed."""
        for i, seed in enumerate(seeds):
            if seed is not None:
                self.noise_rngs[i] = np.random.default_rng(seed)

    def evaluate(self) -> Outcomes:
        """Of the current assignments; with noise, what a measurement would have said."""
        latency_ms, feasible = self.simulated.exact_batch(self.assignments)
        if self.simulated.noise:
            for i in np.flatnonzero(feasible):
                noise = self.simulated.noise * self.noise_rngs[i].standard_normal()
                latency_ms[i] *= np.exp(noise)
        return Outcomes(latency_ms, self.simulated.reference_ms, feasible)
