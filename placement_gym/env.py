"""The environment: an action places every unit, a backend says what that costs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from placement_gym import rewards
from placement_gym.arrays import BoolArray, FloatArray, IntArray, UInt8
from placement_gym.backends.protocol import Backend, Measurement
from placement_gym.backends.single_devices import SingleDeviceResults
from placement_gym.costs.table import CostTable
from placement_gym.errors import UserError
from placement_gym.observation import Observation, Observer
from placement_gym.placement import Placement
from placement_gym.problem import Problem, assignment_hash
from placement_gym.render import frame, text


class DevicePlacementEnv(gym.Env[Observation, IntArray]):
    """Place the units of a neural network on devices.

    ## Action space
    ``MultiDiscrete([n_devices] * N)``: one device for each unit, in topological order. Devices
    that cannot run a unit are masked in ``action_masks()``. With ``max_nodes``, N is that number
    and actions of padded units are ignored.

    ## Observation space
    A flat ``Dict`` of padded arrays: the static graph, the last placement, the step; see
    ``placement_gym.observation.Observer``.

    ## Rewards
    ``log_speedup`` against the reference device by default; see ``placement_gym.rewards``.

    ## Starting state
    Everything on the reference device: the first that runs the whole model.

    ## Episode end
    Terminates after ``horizon`` placements. An infeasible placement costs ten reference
    latencies and ends nothing.

    ## Information
    The same keys after ``reset`` and every ``step``: latency_ms, reference_ms, best_single_ms,
    best_single_unlimited_ms, speedup, speedup_vs_best_single, latency_p90_ms, noise,
    n_submodels, n_submodels_expected, n_transfers, transfer_bytes, memory_bytes, compile_s,
    measure_s, cached, feasible, error, placement_hash, devices, testbed. The latencies of single
    devices are given relative to the reference of the same moment, so that slow drift of the
    machine does not enter a comparison.

    Args:
        backend: Scores placements of its problem.
        reward: Name of a reward.
        horizon: Placements an episode.
        max_nodes: Pad units to this number, for transfer between models.
        max_edges: Pad edges to this number.
        observe_graph: False leaves the static graph out of the observation.
        unit_ms: (n_units, n_devices) times for the feature block ``cost``.
        graph: View of the problem's operators, kept in saved placements.
        render_mode: None, ``"ansi"``, ``"human"`` or ``"rgb_array"``.

    Raises:
        ValueError: An argument is out of range; the message says what is possible.
    """

    metadata = {  # noqa: RUF012  as gym.Env declares it
        "render_modes": ["ansi", "human", "rgb_array"],
        "render_fps": 1,
    }

    def __init__(
        self,
        backend: Backend,
        reward: str = "log_speedup",
        horizon: int = 1,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        observe_graph: bool = True,
        unit_ms: FloatArray | None = None,
        graph: str = "folded",
        render_mode: str | None = None,
    ) -> None:
        if horizon < 1:
            raise UserError(f"horizon must be at least 1, not {horizon}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UserError(f"render_mode must be one of {self.metadata['render_modes']} or None")
        self.backend = backend
        self.problem: Problem = backend.problem
        self.reward = rewards.get_reward(reward)
        self.horizon = horizon
        self.graph = graph
        self.render_mode = render_mode
        self.observer = Observer(
            self.problem, horizon, max_nodes, max_edges, observe_graph, unit_ms
        )
        self.observation_space: spaces.Space[Any] = self.observer.space()
        n_devices = len(self.problem.devices)
        self.action_space = spaces.MultiDiscrete([n_devices] * self.observer.n_nodes)
        self.assignment = self.problem.single(self.problem.reference_device)
        self.steps = 0

    @cached_property
    def singles(self) -> SingleDeviceResults:
        """Every device alone, measured when first needed."""
        return SingleDeviceResults.of(self.backend)

    @cached_property
    def reference(self) -> Measurement:
        """The reference device alone."""
        reference = self.singles.measurements[self.problem.reference_device]
        assert reference is not None  # Problem chose a device that runs everything
        return reference

    @cached_property
    def best_speedups(self) -> tuple[float, float]:
        """Of the fastest device alone, and of the fastest one memory limits ignored."""
        return self.singles.fastest().speedup, self.singles.fastest(limited=False).speedup

    @property
    def last(self) -> Measurement:
        """The latest measurement: of the reference after a reset."""
        return self._last if self._last is not None else self.reference

    _last: Measurement | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start with everything on the reference device; measures nothing that is known."""
        super().reset(seed=seed)
        self.assignment = self.problem.single(self.problem.reference_device)
        self.steps = 0
        self._last = None
        return self.observer.observe(self.assignment, 0), self.info()

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place every unit and score the placement.

        Args:
            action: (N,) device indices.

        Raises:
            ValueError: The action has another shape or range.
        """
        before = self.last
        self.evaluate(self.checked(action))
        self.steps += 1
        reward = self.reward(self.last, before)
        terminated = self.steps >= self.horizon
        observation = self.observer.observe(self.assignment, self.steps)
        if self.render_mode == "human":
            self.render()
        return observation, float(reward), terminated, False, self.info()

    def evaluate(self, assignment: IntArray) -> Measurement:
        """Score an (n_units,) assignment and make it the current one."""
        self._last = self.backend.evaluate(assignment)
        self.assignment = assignment
        return self._last

    def checked(self, action: ArrayLike) -> IntArray:
        """The assignment that an action means, without padding; backends check its range."""
        given, n_nodes = np.asarray(action), self.observer.n_nodes
        if given.dtype.kind in "iu" and given.shape == (n_nodes,):
            return given.astype(np.int64)[: self.problem.n_units]
        last = len(self.problem.devices) - 1
        raise UserError(f"an action is {n_nodes} device indices from 0 to {last}, not {action!r}")

    def action_masks(self) -> BoolArray:
        """(N * n_devices,) bool, whether each unit may go to each device (sb3-contrib's form)."""
        masks = np.ones((self.observer.n_nodes, len(self.problem.devices)), dtype=np.bool_)
        masks[: self.problem.n_units] = self.problem.supported
        return masks.ravel()

    def info(self) -> dict[str, Any]:
        """What is known of the current placement; fresh values, see the class."""
        problem, last = self.problem, self.last
        best, unlimited = self.best_speedups
        speedup = last.speedup
        return {
            "latency_ms": last.latency_ms,
            "reference_ms": last.reference_ms,
            "best_single_ms": last.reference_ms / best,
            "best_single_unlimited_ms": last.reference_ms / unlimited,
            "speedup": speedup,
            "speedup_vs_best_single": speedup / best,
            "latency_p90_ms": last.latency_p90_ms,
            "noise": last.noise,
            "n_submodels": last.n_submodels,
            "n_submodels_expected": last.n_submodels_expected,
            "n_transfers": last.n_transfers,
            "transfer_bytes": last.transfer_bytes,
            "memory_bytes": np.array(last.memory_bytes, dtype=np.int64),
            "compile_s": last.compile_s,
            "measure_s": last.measure_s,
            "cached": last.cached,
            "feasible": last.feasible,
            "error": last.error,
            "placement_hash": assignment_hash(self.assignment),
            "devices": problem.device_names,
            "testbed": problem.testbed,
        }

    def cost_table(self) -> CostTable:
        """What operators and transfers cost: the simulated backend's table, or the profile of
        this machine, which is measured when first asked for and then kept.
        """
        return self.backend.cost_table()

    def placement(self) -> Placement:
        """The current placement, to save or to compile with."""
        return Placement.of(self.problem, self.assignment, self.graph)

    def graph_table(self) -> dict[int, Observation]:
        """``graph_id`` -> the static part for policies: x, edge_index, edge_mask, node_mask, and
        action_mask (N, n_devices) bool, as ``action_masks``.
        """
        static = {key: value.copy() for key, value in self.observer.static.items()}
        static["action_mask"] = self.action_masks().reshape(self.observer.n_nodes, -1)
        return {self.observer.graph_id: static}

    def render(self) -> str | UInt8 | None:
        """The current placement as text (``"ansi"``, printed by ``"human"``) or as a picture."""
        if self.render_mode == "rgb_array":
            return frame(self.problem, self.assignment, self.last)
        description = text(self.problem, self.assignment, self.last)
        if self.render_mode == "ansi":
            return description
        print(description)
        return None

    def close(self) -> None:
        """Close the backend."""
        self.backend.close()


def placement_env(env: gym.Env[Any, Any]) -> DevicePlacementEnv:
    """The placement environment inside any wrappers.

    Raises:
        TypeError: There is none.
    """
    base = env.unwrapped
    if not isinstance(base, DevicePlacementEnv):
        raise TypeError(f"not a placement environment: {base!r}")
    return base
