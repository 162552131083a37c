"""A hand-made problem and backends with known costs: exact numbers, nothing to compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from by_hand import cost_table, made_graph
from numpy.typing import ArrayLike

from placement_gym.backends import Batch, Measurement
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import FloatArray, IntArray
from placement_gym.envs import DevicePlacementEnv, read_indices
from placement_gym.graph import OpGraph, group
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

WEIGHT_BYTES = (100, 200, 300, 400)
UNIT_MS = ((4.0, 1.0), (4.0, 2.0), (1.0, 3.0), (1.0, 5.0))
TRANSFER_MS = (0.5, 0.25, 0.125)
TENSOR_BYTES = (1000, 2000, 3000)
CPU_GPU = (DeviceSpec("CPU"), DeviceSpec("GPU"))


def diamond() -> OpGraph:
    """Operator a feeds b and c, which feed d."""
    names, types = ("a", "b", "c", "d"), ("Convolution", "Relu", "Sigmoid", "Add")
    graph = made_graph(4, [(0, [1, 2]), (1, [3]), (2, [3])], types, inputs=[[0]])
    return replace(
        graph,
        model="diamond",
        names=names,
        members=tuple((name,) for name in names),
        weight_bytes=np.array(WEIGHT_BYTES),
        flops=np.array([1e6, 1e3, 1e3, 1e3]),
        tensors=replace(graph.tensors, size_bytes=np.array(TENSOR_BYTES)),
    )


def diamond_problem(
    devices: Sequence[DeviceSpec] = CPU_GPU, refused: Sequence[tuple[int, int]] = ()
) -> Problem:
    """Each operator a unit; ``refused`` lists the (unit, device) pairs that do not run."""
    units = group(diamond(), "op")
    supported = np.ones((len(units), len(devices)), dtype=np.bool_)
    for unit, device in refused:
        supported[unit, device] = False
    return Problem(units, tuple(devices), supported)


def diamond_costs(problem: Problem) -> CostTable:
    """``UNIT_MS`` and ``TRANSFER_MS``, the latter between any two devices."""
    return cost_table(
        problem.units.graph,
        np.array(UNIT_MS)[:, np.arange(len(problem.devices)) % 2],
        TRANSFER_MS,
        host=[device.kind == "CPU" for device in problem.devices],
        source="made up",
        devices=problem.device_names,
        supported=problem.supported,
        memory_bytes=np.array(WEIGHT_BYTES),
        transfer_unit="ms",
    )


def diamond_backend(problem: Problem | None = None) -> SimulatedBackend:
    """The diamond under ``UNIT_MS`` and ``TRANSFER_MS``."""
    problem = problem or diamond_problem()
    return SimulatedBackend(problem, diamond_costs(problem))


class FakeBackend:
    """Scripted costs, and a record of every call.

    Args:
        cost: Latency of an assignment, ms; by default 10, and 1 more for each unit on device 1.
        problem: By default that of the diamond.
        failures: Assignments that fail at run time.
    """

    def __init__(
        self,
        cost: Callable[[IntArray], float] = lambda assignment: 10.0 + float(assignment.sum()),
        problem: Problem | None = None,
        failures: Sequence[Sequence[int]] = (),
    ) -> None:
        self.problem = problem or diamond_problem()
        self.cost = cost
        self.failures = {tuple(assignment) for assignment in failures}
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.closed = False

    @property
    def reference_ms(self) -> float:
        return self.cost(self.problem.single(self.problem.reference_device))

    @property
    def objective(self) -> str:
        return "latency"

    @property
    def limits_weights(self) -> bool:
        return self.problem.limited

    @property
    def rough_costs(self) -> None:
        return None

    def calls_of(self, method: str) -> int:
        """How often a method was called."""
        return sum(name == method for name, _ in self.calls)

    def evaluate(self, assignment: IntArray) -> Measurement:
        self.calls.append(("evaluate", tuple(assignment.tolist())))
        error, held = self.problem.infeasibility(assignment), self.problem.memory_bytes(assignment)
        if not error:
            return self.answer(assignment)
        excess = int(self.problem.memory.excess(held).sum())
        used = tuple(held.tolist())
        return Measurement.failed(error, self.reference_ms, (0, 0), used, excess)

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        return Batch.evaluate(self.evaluate, assignments)

    def excess_shares(self, assignments: IntArray) -> FloatArray:
        held = np.stack([self.problem.memory_bytes(one) for one in assignments])
        return self.problem.memory.excess(held).sum(axis=1) / self.problem.total_bytes

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        self.calls.append(("evaluate_ignoring_limits", tuple(assignment.tolist())))
        return self.answer(assignment)

    def answer(self, assignment: IntArray) -> Measurement:
        if tuple(assignment.tolist()) in self.failures:
            return Measurement.failed("the device caught fire", self.reference_ms)
        latency_ms = self.cost(assignment)
        held = tuple(self.problem.memory_bytes(assignment).tolist())
        return Measurement(
            latency_ms,
            self.reference_ms,
            latency_ms,
            memory_bytes=held,
            compile_s=1.0,
            measure_s=2.0,
        )

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        self.calls += [("remeasure", tuple(assignment.tolist())) for assignment in assignments]
        return [self.answer(assignment) for assignment in assignments]

    def infeasibility(self, assignment: IntArray) -> str:
        return self.problem.infeasibility(assignment)

    def start_ms(self, assignment: IntArray) -> FloatArray:
        return np.zeros(len(assignment))

    def cost_table(self) -> CostTable:
        return diamond_costs(self.problem)

    def own_choice(self, plugin: str) -> IntArray:
        return self.problem.single(int(plugin == "AUTO"))

    def close(self) -> None:
        self.closed = True


def assignment(values: ArrayLike) -> IntArray:
    return np.asarray(values, dtype=np.int64)


LIMITED = (DeviceSpec("CPU"), DeviceSpec("GPU", weight_share=0.5))


def diamond_env(**kwargs: Any) -> DevicePlacementEnv:
    return DevicePlacementEnv(diamond_backend(), **kwargs)


def play_actions(env: gym.Env[Any, Any], *actions: Any) -> tuple[list[float], list[dict[str, Any]]]:
    """Play one episode; return its rewards, and its infos from the reset on."""
    infos = [env.reset(seed=0)[1]]
    rewards = []
    for action in actions:
        _, reward, _, _, info = env.step(action)
        rewards.append(float(reward))
        infos.append(info)
    return rewards, infos


class Greedy:
    """Evaluates until it is stopped."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        self.env = env

    def learn(self, total_timesteps: int) -> None:
        self.env.action_space.seed(0)
        while True:
            self.env.reset()
            self.env.step(self.env.action_space.sample())

    def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
        return np.zeros(observation["placement"].shape, dtype=np.int64), None


def placed(observation: Mapping[str, Any], n_devices: int = 2) -> IntArray:
    """The (N,) devices of an observation, or (B, N) of a batch."""
    devices: IntArray = read_indices(observation["placement"], n_devices)
    return devices
