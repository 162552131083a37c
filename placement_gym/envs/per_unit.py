"""The environment that places one unit per step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from placement_gym.backends.protocol import Backend, Measurement
from placement_gym.base.arguments import check_choice
from placement_gym.base.arrays import BoolArray, FloatArray, IntArray, UInt8
from placement_gym.base.errors import UserError
from placement_gym.envs import rewards
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import PLACEMENT, warn_finished
from placement_gym.envs.observation import Observation, Observer
from placement_gym.envs.scaling import IndexBox
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.decisions import check_placement_alone
from placement_gym.problem.free_memory import free_memory_mask
from placement_gym.problem.placement import Placement
from placement_gym.problem.problem import Problem

STARTS = ("first", "random", "best")
PER_UNIT_REWARDS = ("improvement", "final")


class PerUnitEnv(gym.Env[Observation, np.int64]):
    """Place one unit per step, in topological order (Placeto, section 3).

    ## Description
    An episode visits every unit once, and the whole placement is evaluated after each step.
    Everything else is as in [all environments](env.py).

    ## Action Space
    `Discrete(n_devices)`: the device of the current unit. `env.unwrapped.action_masks()` masks
    devices that cannot run it, or have too little memory left for it.

    ## Observation Space
    That of all environments, with three more keys for N units.

    | key | shape | type | meaning |
    | --- | --- | --- | --- |
    | `current_unit` | (1,) | float32 | index of the unit that the next action places / N |
    | `visited` | (N,) | int8 | 1 for units that have been placed |
    | `start` | (N,) | float32 | start of each unit in the simulated schedule / the latest start |

    `step` is the number of units placed / N. `start` is 0 in measured environments.

    ## Rewards
    `"improvement"`, the default: the latency that each step saved, in reference latencies.
    `"final"`: 0 until the last unit is placed, then `final_reward`; no other placement is
    evaluated.

    ## Starting State
    `start="first"` puts all units on the reference device, `"random"` draws a device for each, and
    `"best"` takes the fastest placement since the last seed was set. The option `placement` of
    `reset` takes precedence.

    ## Episode End
    The episode terminates after the last unit; `horizon` has no meaning here.

    ## Information
    The keys describe the placement that was evaluated last. With `repair` the unit just placed
    stays where it is, and the episode continues from the repaired placement.

    ## References
    Placeto (Addanki et al. 2019).

    ## Version History
    * v0: Initial version.

    Args:
        base: Evaluates whole placements; its spaces, horizon and episodes are not used.
        start: Placement that an episode starts from: ``"first"``, all on the reference device;
            ``"random"``; or ``"best"``, the fastest seen since the last seed was set.
        reward: ``"improvement"``: what each step saved. ``"final"``: 0 until the last unit is
            placed, then the reward of ``base``; only that placement is evaluated.

    Attributes:
        base: The environment that evaluates, as ``placement_env`` returns it.

    Raises:
        UserError: Unknown start or reward, or ``base`` decides more than the placement.
    """

    metadata = DevicePlacementEnv.metadata

    def __init__(
        self, base: DevicePlacementEnv, start: str = "first", reward: str = "improvement"
    ) -> None:
        check_placement_alone(base.decisions)
        check_choice("start", start, STARTS)
        check_choice("reward", reward, PER_UNIT_REWARDS)
        self.base, self.render_mode = base, base.render_mode
        self.start, self.final_only = start, reward == "final"
        improvement = rewards.get_reward("improvement")
        self.reward = base.reward if self.final_only else improvement
        n_nodes = base.observer.n_nodes
        self.action_space = spaces.Discrete(base.observer.n_devices)
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {
                **base.observation_space.spaces,  # type: ignore[attr-defined]
                "step": IndexBox(n_nodes, (1,)),
                "current_unit": IndexBox(n_nodes, (1,)),
                "visited": spaces.MultiBinary(n_nodes),
                "start": spaces.Box(0.0, 1.0, (n_nodes,), np.float32),
            }
        )
        self.current = 0
        self.assignment = base.assignment
        self.best: tuple[float, IntArray] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode at the first unit; the option ``placement`` goes before ``start``."""
        super().reset(seed=seed)
        _, info = self.base.reset(seed=seed, options=options)
        if seed is not None:
            self.best = None
        self.current = 0
        has_start = (options or {}).get(PLACEMENT) is not None  # then it is evaluated
        self.assignment = self.base.assignment if has_start else self.choose_start()
        if not has_start and self.start != "first" and not self.final_only:
            self.base.evaluate(self.assignment)
            self.assignment = self.base.assignment
            info = self.base.get_info()
        if has_start or self.start == "first" or not self.final_only:  # else it was not evaluated
            self.update_best(self.base.last_measurement)
        return self.observe(), info

    def choose_start(self) -> IntArray:
        """Return the (n_units,) assignment that an episode starts from."""
        problem = self.problem
        if self.start == "random":
            draws = self.np_random.random(problem.supported.shape) * problem.supported
            return draws.argmax(axis=1).astype(np.int64)
        if self.start == "best" and self.best is not None:
            return self.best[1]
        return problem.single(problem.reference_device)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place the current unit; after the last one nothing is placed.

        Raises:
            ValueError: The action is not a device index.
        """
        if self.current == self.problem.n_units:
            warn_finished()
            return self.observe(), 0.0, True, False, self.base.get_info()
        self.move_current(action)
        done = self.current == self.problem.n_units
        reward = self.reward_step(done)
        if self.base.render_mode == "human":
            self.base.render()
        return self.observe(), reward, done, False, self.base.get_info()

    def move_current(self, action: Any) -> None:
        """Move the current unit to a device and go on to the next unit."""
        device, n_devices = np.asarray(action), self.base.observer.n_devices
        if device.dtype.kind not in "iu" or device.ndim or not 0 <= device < n_devices:
            raise UserError(
                f"an action is a device index from 0 to {n_devices - 1}, not {action!r}"
            )
        self.assignment = self.assignment.copy()  # ``base`` and ``best`` keep the one before
        self.assignment[self.current] = self.base.layout.where_present(device)
        self.current += 1

    def reward_step(self, done: bool) -> float:
        """Evaluate the placement if this step has a reward, and keep it if it is the fastest."""
        if self.final_only and not done:
            return 0.0
        previous, n_units = self.base.last_measurement, self.problem.n_units
        measurement = self.base.evaluate(
            self.assignment, keep=np.arange(n_units) == self.current - 1
        )
        self.assignment = self.base.assignment  # others may have made room
        self.update_best(measurement)
        return float(self.reward(measurement, previous))

    def update_best(self, measurement: Measurement) -> None:
        """Keep the current placement for ``start="best"`` if its measurement is the fastest."""
        if measurement.feasible and (self.best is None or measurement.speedup > self.best[0]):
            self.best = (measurement.speedup, self.assignment)

    def observe(self) -> Observation:
        """The observation before the current unit is placed."""
        start_ms = self.base.backend.start_ms(self.assignment)
        return observe_unit(self.base.observer, self.assignment, self.current, start_ms)

    def action_masks(self) -> BoolArray:
        """(n_devices,) bool, the devices that run the current unit and have room for it.

        Units that this episode has placed take memory, others none. Where no device has room, the
        one with the most is left. Room counts where the backend limits weights.
        """
        unit = min(self.current, self.problem.n_units - 1)
        masks: BoolArray = self.base.observer.device_masks[unit].copy()
        if self.backend.limits_weights:
            visited = np.arange(self.problem.n_units) < self.current
            fits = free_memory_mask(self.problem, self.assignment, visited, unit)
            masks[: len(fits)] = fits
        return masks

    @property
    def problem(self) -> Problem:
        """Units and devices."""
        return self.base.problem

    @property
    def backend(self) -> Backend:
        """The backend that evaluates placements."""
        return self.base.backend

    @property
    def graph(self) -> str:
        """View of the problem's operators, kept in saved placements."""
        return self.base.graph

    @property
    def objective(self) -> str:
        """See ``DevicePlacementEnv.objective``."""
        return self.base.objective

    def placement(self) -> Placement:
        """The placement that was evaluated last, to save or to compile with."""
        return self.base.placement()

    def graph_table(self, devices: bool | None = None) -> dict[int, Observation]:
        """See ``DevicePlacementEnv.graph_table``."""
        return self.base.graph_table(devices)

    def cost_table(self) -> CostTable:
        """See ``DevicePlacementEnv.cost_table``."""
        return self.base.cost_table()

    def render(self) -> str | UInt8 | None:
        """See ``DevicePlacementEnv.render``."""
        return self.base.render()

    def close(self) -> None:
        """See ``DevicePlacementEnv.close``."""
        self.base.close()


def observe_unit(
    observer: Observer, assignment: IntArray, current: int, start_ms: FloatArray | None
) -> Observation:
    """The observation of ``PerUnitEnv`` before a unit is placed.

    Args:
        observer: That of the environment.
        assignment: (n_units,) the placement so far.
        current: The unit to place, or the number of units at the end.
        start_ms: (n_units,) when each unit starts; None where no schedule is known.
    """
    n_units = observer.problem.n_units
    visited = np.zeros(observer.n_nodes, dtype=np.int8)
    visited[:current] = 1
    start = np.zeros(observer.n_nodes, dtype=np.float32)
    if start_ms is not None:
        start[:n_units] = start_ms / (start_ms.max() or 1.0)
    units = IndexBox(observer.n_nodes, (1,))
    return {
        **observer.observe(assignment, current),
        "step": units.share(np.array([current])),
        "current_unit": units.share(np.array([min(current, n_units - 1)])),
        "visited": visited,
        "start": start,
    }
