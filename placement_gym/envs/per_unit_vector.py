"""The vector environment that places one unit per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from placement_gym.base import BoolArray, FloatArray, IntArray, UserError
from placement_gym.envs.entry_points import SimulatedVectorEnv
from placement_gym.envs.episode import PLACEMENT
from placement_gym.envs.per_unit import PerUnitEnv
from placement_gym.envs.unit_observation import observe_unit
from placement_gym.envs.vector import Info, Outcomes, SameStepVectorEnv
from placement_gym.problem import random_devices


class PerUnitVectorEnv(SameStepVectorEnv[Any, IntArray], VectorEnv[Any, IntArray, NDArray[Any]]):
    """``gym.make_vec("DevicePlacementPerUnitSim-v0", num_envs=k)``: equal to k single environments.

    All environments place the same unit in a step, and their placements are evaluated together.
    Episodes are reset in the step that ends them (``AutoresetMode.SAME_STEP``). Infos have the keys
    of ``SimulatedVectorEnv``.

    Args:
        num_envs: Number of environments.
        max_episode_steps: Steps after which episodes are truncated, as ``TimeLimit`` does.
        start: See ``PerUnitEnv``.
        reward: See ``PerUnitEnv``.
        observe: See ``PerUnitEnv``.
        final_reward: The reward of all environments that ``reward="final"`` pays.
        kwargs: As for ``SimulatedEnv``.

    Raises:
        UserError: ``num_envs`` is not a positive integer, or another argument is wrong.
    """

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        start: str | None = None,
        reward: str | None = None,
        observe: str = "graph",
        final_reward: str = "log_speedup",
        **kwargs: Any,
    ) -> None:
        self.whole = SimulatedVectorEnv(num_envs, reward=final_reward, **kwargs)
        self.one = PerUnitEnv(self.whole.env, start, reward, observe)
        self.set_spaces(num_envs, self.one, self.one.observation_space, max_episode_steps)
        self.rngs = [np_random()[0] for _ in range(num_envs)]
        self.best_speedup, self.best_rows = np.zeros(num_envs), self.whole.first_rows.copy()
        self.begin()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, Info]:
        """Start all episodes; arguments and errors are those of ``PlacementVectorEnv``."""
        self.whole.reset(seed=seed, options=options)
        for number, each in enumerate(self.list_seeds(seed)):
            if each is not None:
                self.rngs[number] = np_random(each)[0]
                self.best_speedup[number] = 0.0
                self.best_rows[number] = self.whole.first_rows[number]
        self.begin((options or {}).get(PLACEMENT) is not None)
        return self.observe(), self.whole.get_info()

    def begin(self, is_given: bool = False) -> None:
        """Start all episodes; if ``is_given``, from the placements of ``whole``."""
        one, whole = self.one, self.whole
        self.current, start = 0, "given" if is_given else one.start
        rows = whole.rows
        is_evaluated = start not in ("random", "best") or one.pays == "improvement"
        if start == "best-single":
            rows = np.tile(one.problem.single(one.single), (self.num_envs, 1))
            alone = one.base.singles.of_device(one.single)
            whole.rows, whole.outcomes = rows, Outcomes.from_measurement(alone, self.num_envs)
        elif start in ("random", "best"):
            rows = self.best_rows.copy()
            if start == "random":
                rows = np.stack([random_devices(one.problem, rng) for rng in self.rngs])
            if is_evaluated:
                whole.outcomes = whole.evaluate(rows)
                rows = whole.rows
        self.rows = rows
        if is_evaluated:
            self.update_best()
        if one.pays == "saving":
            self.ratios = self.predict_ratios()
        if one.flat is not None:
            one.flat.begin(rows)

    def step(self, actions: IntArray) -> tuple[Any, FloatArray, BoolArray, BoolArray, Info]:
        """Place the current unit in every environment on (num_envs,) devices."""
        self.move_current(np.asarray(actions))
        is_last = self.current == self.one.problem.n_units
        reward = self.reward_step(is_last)
        terminated = np.full(self.num_envs, is_last)
        truncated = np.full(self.num_envs, self.current >= self.max_episode_steps)
        if self.render_mode == "human":
            self.render()
        observation, info = self.observe(), self.whole.get_info()
        if terminated[0] or truncated[0]:
            self.whole.start_episodes()
            self.begin()
            ends = self.report_ends(iterate(self.observation_space, observation), info)
            observation, info = self.observe(), self.whole.get_info() | ends
        return observation, reward, terminated, truncated, info

    def move_current(self, devices: IntArray) -> None:
        """Move the current unit and continue with the next; invalid devices raise."""
        n_devices = self.one.base.observer.n_devices
        is_right = devices.dtype.kind in "iu" and devices.shape == (self.num_envs,)
        if not (is_right and (devices >= 0).all() and (devices < n_devices).all()):
            raise UserError(
                f"actions are {self.num_envs} device indices from 0 to {n_devices - 1}, not "
                f"{devices!r:.200}"
            )
        placed = self.one.base.layout.where_present(devices)
        self.rows = self.rows.copy()  # ``whole`` keeps the previous ones
        self.rows[:, self.current] = placed
        if self.one.flat is not None:
            self.one.flat.place(self.current, placed)
        self.current += 1

    def reward_step(self, is_last: bool) -> FloatArray:
        """(num_envs,) rewards, after evaluating the placements if the reward needs it."""
        one, whole, previous = self.one, self.whole, self.whole.outcomes
        if is_last or one.pays == "improvement":
            keep = np.arange(self.rows.shape[1]) == self.current - 1
            whole.outcomes = whole.evaluate(self.rows, np.broadcast_to(keep, self.rows.shape))
            self.rows = whole.rows  # a repair may have moved other units
            self.update_best()
        if one.pays == "saving":
            before, self.ratios = self.ratios, self.predict_ratios()
            if is_last:
                self.ratios = one.compare_with_single(whole.outcomes)
            return one.problem.n_units * (before - self.ratios)
        if is_last or one.pays != "final":
            return np.asarray(one.reward(whole.outcomes, previous), dtype=np.float64)
        return np.zeros(self.num_envs)

    def predict_ratios(self) -> FloatArray:
        """(num_envs,) latencies from costs, relative to the best single device's."""
        latencies_ms = self.one.twin.simulator.latencies_ms(self.rows.astype(np.uint8))
        return latencies_ms / self.one.single_ms

    def update_best(self) -> None:
        """Keep each environment's placement for ``start="best"`` if it is the fastest."""
        outcomes = self.whole.outcomes
        is_best = outcomes.feasible & (outcomes.speedup > self.best_speedup)
        self.best_speedup[is_best] = outcomes.speedup[is_best]
        self.best_rows[is_best] = self.rows[is_best]

    def observe(self) -> Any:
        one = self.one
        if one.flat is not None:
            return one.flat.observe(min(self.current, one.problem.n_units - 1))
        start_ms = np.stack([one.backend.start_ms(row) for row in self.rows])
        return observe_unit(one.base.observer, self.rows, self.current, start_ms)

    def render(self) -> tuple[Any, ...] | None:
        """Render the placement of each environment that was evaluated last."""
        return self.whole.render()

    def close_extras(self, **kwargs: Any) -> None:
        self.whole.close()
