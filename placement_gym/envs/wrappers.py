"""The wrapper that places one unit per step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from placement_gym.backends.protocol import Measurement
from placement_gym.base.arrays import BoolArray, FloatArray, IntArray
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.envs import rewards
from placement_gym.envs.episode import PLACEMENT
from placement_gym.envs.observation import Observation, Observer
from placement_gym.envs.placement_env import placement_env

STARTS = ("first", "random", "best")
PER_UNIT_REWARDS = ("improvement", "final")


class PerUnit(
    gym.Wrapper[Observation, np.int64, Observation, IntArray],
    gym.utils.RecordConstructorArgs,
):
    """Place one unit per step, in topological order (Placeto, section 3).

    ## Description
    An episode visits every unit once, and the whole placement is evaluated after each step.
    Everything else is as in [all environments](env.py).

    ## Action Space
    `Discrete(n_devices)`: the device of the current unit. `action_masks()` masks devices that
    cannot run it.

    ## Observation Space
    That of all environments, with three more keys for N units.

    | key | shape | type | meaning |
    | --- | --- | --- | --- |
    | `current_unit` | (1,) | int64 | the unit that the next action places |
    | `visited` | (N,) | int8 | 1 for units that have been placed |
    | `start_ms` | (N,) | float32 | start of each unit in the simulated schedule; 0 if measured |

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
        env: The environment to place in.
        start: Placement that an episode starts from: ``"first"``, all on the reference device;
            ``"random"``; or ``"best"``, the fastest seen since the last seed was set.
        reward: ``"improvement"``: what each step saved. ``"final"``: 0 until the last unit is
            placed, then the inner environment's reward; only that placement is evaluated.

    Raises:
        ValueError: Unknown start or reward.
    """

    def __init__(
        self, env: gym.Env[Any, Any], start: str = "first", reward: str = "improvement"
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, start=start, reward=reward)
        gym.Wrapper.__init__(self, env)
        if start not in STARTS:
            raise unknown_name("start", start, STARTS)
        if reward not in PER_UNIT_REWARDS:
            raise unknown_name("reward", reward, PER_UNIT_REWARDS)
        self.base = placement_env(env)
        self.start, self.final_only = start, reward == "final"
        n_nodes, n_units = self.base.observer.n_nodes, self.base.problem.n_units
        self.action_space = spaces.Discrete(self.base.observer.n_devices)
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {
                **self.base.observation_space.spaces,  # type: ignore[attr-defined]
                "step": spaces.Box(0, n_units, (1,), np.int64),
                "current_unit": spaces.Box(0, max(n_nodes - 1, 1), (1,), np.int64),
                "visited": spaces.MultiBinary(n_nodes),
                "start_ms": spaces.Box(-np.inf, np.inf, (n_nodes,), np.float32),
            }
        )
        self.current = 0
        self.assignment = self.base.assignment
        self.best: tuple[float, IntArray] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode at the first unit; the option ``placement`` goes before ``start``."""
        _, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self.best = None
        self.current = 0
        given = (options or {}).get(PLACEMENT) is not None  # then it is evaluated
        self.assignment = self.base.assignment if given else self.choose_start()
        if not given and self.start != "first" and not self.final_only:
            self.base.evaluate(self.assignment)
            self.assignment = self.base.assignment
            info = self.base.get_info()
        if given or self.start == "first" or not self.final_only:  # else it was not evaluated
            self.update_best(self.base.last_measurement)
        return self.observe(), info

    def choose_start(self) -> IntArray:
        """Return the (n_units,) assignment that an episode starts from."""
        problem = self.base.problem
        if self.start == "random":
            draws = self.base.np_random.random(problem.supported.shape) * problem.supported
            return draws.argmax(axis=1).astype(np.int64)
        if self.start == "best" and self.best is not None:
            return self.best[1]
        return problem.single(problem.reference_device)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place the current unit.

        Raises:
            ValueError: The action is not a device index.
        """
        self.move_current(action)
        done = self.current == self.base.problem.n_units
        reward = self.compute_reward(done)
        if self.base.render_mode == "human":
            self.base.render()
        return self.observe(), reward, done, False, self.base.get_info()

    def place(self, action: Any) -> Observation:
        """Place the current unit without evaluating the placement.

        Raises:
            ValueError: The action is not a device index.
        """
        self.move_current(action)
        return self.observe()

    def move_current(self, action: Any) -> None:
        """Move the current unit to a device and go on to the next unit."""
        given, n_devices = np.asarray(action), self.base.observer.n_devices
        if given.dtype.kind not in "iu" or given.ndim or not 0 <= given < n_devices:
            raise UserError(
                f"an action is a device index from 0 to {n_devices - 1}, not {action!r}"
            )
        self.assignment = self.assignment.copy()  # ``base`` and ``best`` keep the one before
        self.assignment[self.current] = self.base.layout.where_present(given)
        self.current += 1

    def compute_reward(self, done: bool) -> float:
        """Evaluate the placement if this step has a reward, and keep it if it is the fastest."""
        if self.final_only and not done:
            return 0.0
        before, n_units = self.base.last_measurement, self.base.problem.n_units
        now = self.base.evaluate(self.assignment, keep=np.arange(n_units) == self.current - 1)
        self.assignment = self.base.assignment  # others may have made room
        self.update_best(now)
        reward = self.base.reward if self.final_only else rewards.improvement
        return float(reward(now, before))

    def update_best(self, measurement: Measurement) -> None:
        """Keep the current placement for ``start="best"`` if its measurement is the fastest."""
        if measurement.feasible and (self.best is None or measurement.speedup > self.best[0]):
            self.best = (measurement.speedup, self.assignment)

    def observe(self) -> Observation:
        """The observation before the current unit is placed."""
        start_ms = self.base.backend.start_ms(self.assignment)
        return observe_unit(self.base.observer, self.assignment, self.current, start_ms)

    def action_masks(self) -> BoolArray:
        """(n_devices,) bool, the devices that run the current unit."""
        unit = min(self.current, self.base.problem.n_units - 1)
        return self.base.observer.device_masks[unit].copy()


def observe_unit(
    observer: Observer, assignment: IntArray, current: int, start_ms: FloatArray | None
) -> Observation:
    """The observation of ``PerUnit`` before a unit is placed.

    Args:
        observer: That of the environment.
        assignment: (n_units,) the placement so far.
        current: The unit to place, or the number of units at the end.
        start_ms: (n_units,) when each unit starts; None where no schedule is known.
    """
    n_units = observer.problem.n_units
    visited = np.zeros(observer.n_nodes, dtype=np.int8)
    visited[:current] = 1
    starts = np.zeros(observer.n_nodes, dtype=np.float32)
    starts[:n_units] = 0.0 if start_ms is None else start_ms
    return {
        **observer.observe(assignment, current),
        "current_unit": np.array([min(current, n_units - 1)]),
        "visited": visited,
        "start_ms": starts,
    }
