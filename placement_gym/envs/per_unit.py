"""The environment that places one unit per step."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from placement_gym.backends import Backend, BackendWrapper, Measurement
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import BoolArray, IntArray, UInt8, UserError, check_choice
from placement_gym.envs import rewards
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import PLACEMENT, warn_finished
from placement_gym.envs.observation import Observation
from placement_gym.envs.scaling import IndexBox
from placement_gym.envs.unit_observation import FlatUnits, observe_unit
from placement_gym.problem import (
    Placement,
    Problem,
    check_placement_alone,
    free_memory_mask,
    random_devices,
)
from placement_gym.problem.costs import CostTable, parse_schedule

STARTS = ("first", "best-single", "random", "best")
PER_UNIT_REWARDS = ("improvement", "saving", "final")
GRAPH, FLAT = "graph", "flat"


class PerUnitEnv(gym.Env[Any, np.int64]):
    """Place one unit per step, in topological order (Placeto, section 3).

    Everything that is not described here is as in ``DevicePlacementEnv``.

    ## Description
    An episode visits every unit of the model once; each action places the current unit.
    `DevicePlacementPerUnitSim-v0` simulates as [DevicePlacementSim-v0](simulated_env.py) does,
    `DevicePlacementPerUnit-v0` measures as [DevicePlacement-v0](env.py) does. This page says what
    differs.

    With `observe="flat"` an observation has eight numbers for each device, whatever the size of the
    graph, and measured environments measure only the last placement of an episode. Use it with the
    [algorithms of Stable-Baselines3](../../docs/results/learning.md):

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacementPerUnitSim-v0", model="inception", observe="flat")
    measured = gym.make("DevicePlacementPerUnit-v0", model="tiny", observe="flat", costs="profiled")
    ```

    `gym.make_vec("DevicePlacementPerUnitSim-v0", num_envs=16)` makes about four times as many steps
    per second as one environment. Measured environments are stepped one after another.

    ## Action Space
    `Discrete(n_devices)`: the device of the current unit. `env.unwrapped.action_masks()` is False
    for devices that cannot run it or have too little memory left for it.

    ## Observation Space
    `Dict` of padded arrays, or with `observe="flat"` a `Box` of eight float32 numbers for each
    device.

    The `Dict` has the keys of [DevicePlacement-v0](env.py#observation-space), where `step` is the
    number of units placed / N, and three more:

    | key | shape | meaning |
    | --- | --- | --- |
    | `current_unit` | (1,) | index of the unit that the next action places / N |
    | `visited` | (N,) | 1 for units that have been placed (int8) |
    | `start` | (N,) | simulated start of each unit / the latest start; 0 if measured |

    The `Box` begins with `own` of all devices, then `incoming` of all devices, and so on. Times are
    arcsinh(10 t / mean time of a unit), from about -10 to 10. Units that have not been placed yet
    are on the best single device.

    | number | bounds | meaning for the current unit on a device |
    | --- | --- | --- |
    | `own` | | its time, less that on the best single device |
    | `incoming` | 0 | transfers of its inputs; 0 for tensors that an earlier unit brought there |
    | `outgoing` | 0 | transfers of its outputs to the best single device |
    | `total` | | sum of these three, less that on the best single device |
    | `near` | | sum of the first two, less that on the best single device |
    | `finish` | | its earliest end, less that on the best single device; 0 if `"serial"` |
    | `producer` | 0, 1 | 1 if one of its inputs is made there |
    | `memory` | 0, 2 | share of the limit in use with it; 0 without a limit, 2 if unsupported |

    ## Rewards
    | `reward` | value |
    | --- | --- |
    | `"improvement"` | latency saved by this step / reference latency; default of the `Dict` |
    | `"saving"` | N x latency saved / latency of the best single device; default of `"flat"` |
    | `"final"` | 0 until the last unit is placed, then `final_reward` |

    `"improvement"` evaluates a placement at every step; its rewards are small, of order 1 / N.

    `"saving"` computes latencies from costs alone, without limits and noise, and evaluates only the
    last placement. If an episode starts on the best single device, its rewards add up to N (1 - 1 /
    `speedup_vs_best_single`).

    ## Starting State
    | `start` | devices of the units |
    | --- | --- |
    | `"first"` | the reference device; the default of the `Dict` |
    | `"best-single"` | the fastest single device; the default of `"flat"` |
    | `"random"` | a random device for each unit |
    | `"best"` | the devices of the fastest placement since the last seed was set |

    `reset(options={"placement": ...})` [takes precedence](env.py#starting-state).

    ## Episode End
    The episode terminates after the last unit. `horizon` has no effect.

    ## Information
    The keys of [DevicePlacement-v0](env.py#information), for the placement that was evaluated last
    or that the episode started from. With `repair` the unit that was just placed keeps its device,
    and the episode continues from the repaired placement.

    ## References
    * Placeto (Addanki et al. 2019).

    ## Version History
    * v0: Initial version.

    Args:
        base: Evaluates whole placements; its spaces, horizon and episodes are not used.
        start: Placement that an episode starts from; None is ``"best-single"`` for ``"flat"``, else
            ``"first"``.
        reward: ``"improvement"``, ``"saving"`` or ``"final"``; None is ``"saving"`` for ``"flat"``,
            else ``"improvement"``.
        observe: ``"graph"``, or ``"flat"``: eight numbers for each device.

    Attributes:
        base: The environment that evaluates, as ``placement_env`` returns it.

    Raises:
        UserError: Unknown start, reward or form of observations; ``base`` decides more than the
            placement, or measures without ``costs``, which ``"saving"`` and ``"flat"`` read.
    """

    metadata = DevicePlacementEnv.metadata

    def __init__(
        self,
        base: DevicePlacementEnv,
        start: str | None = None,
        reward: str | None = None,
        observe: str = GRAPH,
    ) -> None:
        check_placement_alone(base.decisions)
        check_choice("observe", observe, (GRAPH, FLAT))
        start = ("best-single" if observe == FLAT else "first") if start is None else start
        reward = ("saving" if observe == FLAT else "improvement") if reward is None else reward
        check_choice("start", start, STARTS)
        rewards.check_reward(reward, PER_UNIT_REWARDS)
        self.base, self.render_mode = base, base.render_mode
        self.start, self.pays = start, reward
        self.reward = base.reward if reward == "final" else rewards.improvement
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
        self.flat: FlatUnits | None = None
        if observe == FLAT:
            self.flat = FlatUnits(self.twin, self.single, base.observer.n_devices)
            self.observation_space = self.flat.space()
        if reward == "saving":
            _ = self.twin  # an error without costs, before devices are measured
            self.single_ms = self.predict_ms(self.problem.single(self.single))
        self.current = 0
        self.assignment = base.assignment
        self.best: tuple[float, IntArray] | None = None
        self.info: dict[str, Any] = {}

    @cached_property
    def single(self) -> int:
        """The fastest device that holds the model; if none does, the fastest without limits."""
        singles = self.base.singles
        best = singles.best()
        device = singles.best(limited=False) if best is None else best
        return self.problem.reference_device if device is None else device

    @cached_property
    def twin(self) -> SimulatedBackend:
        """The backend that computes latencies from costs: simulated, or by a measured profile.

        Raises:
            UserError: The environment measures, and has no costs.
        """
        backend = self.base.backend
        while isinstance(backend, BackendWrapper):
            backend = backend.inner
        if isinstance(backend, SimulatedBackend):
            return backend
        if self.base.costs is None:
            raise UserError(
                "observe='flat' and reward='saving' read the times of units and transfers: pass "
                "costs='profiled', which measures them on this machine once and keeps them"
            )
        semantics = parse_schedule("serial", self.objective)
        return SimulatedBackend(self.problem, self.base.costs, semantics)

    def predict_ms(self, assignment: IntArray) -> float:
        """The latency of an (n_units,) placement from costs, without limits and noise."""
        return self.twin.simulator.latency_ms(assignment.astype(np.uint8))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the option ``placement`` overrides ``start``."""
        super().reset(seed=seed)
        self.base.begin(seed, options)
        if seed is not None:
            self.best = None
        self.current = 0
        # Given starts and single devices have been evaluated; others are if the reward needs it.
        start = "given" if (options or {}).get(PLACEMENT) is not None else self.start
        self.assignment = self.base.assignment if start == "given" else self.choose_start()
        is_evaluated = start not in ("random", "best") or self.pays == "improvement"
        if start == "best-single":
            self.base.row = self.assignment
            self.base.measurement = self.base.singles.of_device(self.single)
        elif start in ("random", "best") and is_evaluated:
            self.base.evaluate(self.assignment)
            self.assignment = self.base.assignment
        if is_evaluated:
            self.update_best(self.base.last_measurement)
        if self.pays == "saving":
            self.ratio = self.predict_ms(self.assignment) / self.single_ms
        if self.flat is not None:
            self.flat.begin(self.assignment)
        self.info = self.base.get_info()
        return self.observe(), self.get_info()

    def get_info(self) -> dict[str, Any]:
        """Return the info of the placement that was evaluated last; arrays are copies."""
        return {**self.info, "memory_bytes": self.info["memory_bytes"].copy()}

    def choose_start(self) -> IntArray:
        """Return (n_units,) devices that an episode starts from."""
        if self.start == "random":
            return random_devices(self.problem, self.np_random)
        if self.start == "best" and self.best is not None:
            return self.best[1]
        is_best = self.start == "best-single"
        return self.problem.single(self.single if is_best else self.problem.reference_device)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Place the current unit; after the last unit, nothing changes.

        Raises:
            ValueError: The action is not a device index.
        """
        if self.current == self.problem.n_units:
            warn_finished()
            return self.observe(), 0.0, True, False, self.get_info()
        self.move_current(action)
        done = self.current == self.problem.n_units
        reward = self.reward_step(done)
        if self.base.render_mode == "human":
            self.base.render()
        return self.observe(), reward, done, False, self.get_info()

    def move_current(self, action: Any) -> None:
        """Move the current unit to a device and continue with the next unit."""
        device, n_devices = np.asarray(action), self.base.observer.n_devices
        if device.dtype.kind not in "iu" or device.ndim or not 0 <= device < n_devices:
            raise UserError(
                f"an action is a device index from 0 to {n_devices - 1}, not {action!r}"
            )
        self.assignment = self.assignment.copy()  # ``base`` and ``best`` keep the previous one
        placed = self.base.layout.where_present(device)
        self.assignment[self.current] = placed
        if self.flat is not None:
            self.flat.place(self.current, placed)
        self.current += 1

    def reward_step(self, done: bool) -> float:
        """Return the reward, after evaluating the placement if the reward needs it."""
        previous = self.base.last_measurement
        if done or self.pays == "improvement":
            measurement = self.evaluate()
        if self.pays == "saving":
            # Latencies over the best single device's: from costs, at the end as evaluated.
            before, self.ratio = self.ratio, self.predict_ms(self.assignment) / self.single_ms
            if done:
                self.ratio = self.compare_with_single(measurement)
            return self.problem.n_units * (before - self.ratio)
        return float(self.reward(measurement, previous)) if done or self.pays != "final" else 0.0

    def compare_with_single(self, outcome: rewards.Outcome) -> Any:
        """The latencies of evaluated placements, relative to the best single device's."""
        single = self.base.singles.of_device(self.single)
        return outcome.cost_ms / outcome.reference_ms * single.speedup

    def evaluate(self) -> Measurement:
        """Evaluate the placement; a repair may move every unit but the current one."""
        keep = np.arange(self.problem.n_units) == self.current - 1
        measurement = self.base.evaluate(self.assignment, keep=keep)
        self.assignment = self.base.assignment
        self.update_best(measurement)
        self.info = self.base.get_info()
        return measurement

    def update_best(self, measurement: Measurement) -> None:
        """Keep the placement for ``start="best"`` if it is the fastest."""
        if measurement.feasible and (self.best is None or measurement.speedup > self.best[0]):
            self.best = (measurement.speedup, self.assignment)

    def observe(self) -> Any:
        """Observe before the current unit is placed; at the end the last unit stays current."""
        if self.flat is not None:
            return self.flat.observe(min(self.current, self.problem.n_units - 1))
        start_ms = self.base.backend.start_ms(self.assignment)
        return observe_unit(self.base.observer, self.assignment, self.current, start_ms)

    def action_masks(self) -> BoolArray:
        """Return (n_devices,) bool, the devices that run the current unit and have room for it.

        Only units placed in this episode take memory, and only if the backend limits weights. If no
        device has room, the one with the most is allowed.
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
        return self.base.problem

    @property
    def backend(self) -> Backend:
        return self.base.backend

    @property
    def graph(self) -> str:
        return self.base.graph

    @property
    def objective(self) -> str:
        return self.base.objective

    def placement(self) -> Placement:
        """Return the placement that was evaluated last, to save or to compile with."""
        return self.base.placement()

    def graph_table(self, devices: bool | None = None) -> dict[int, Observation]:
        return self.base.graph_table(devices)

    def cost_table(self) -> CostTable:
        return self.base.cost_table()

    def render(self) -> str | UInt8 | None:
        return self.base.render()

    def close(self) -> None:
        self.base.close()
