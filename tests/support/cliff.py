"""A machine that is not there: a core with an integrated GPU and an NPU, and what it measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from by_hand import cost_table, made_graph
from scripted_engine import NO_ENGINE

from placement_gym.backends import Measurement
from placement_gym.backends.measured import QUICK, MeasuredBackend, TimingProtocol, load_or_measure
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import FloatArray, IntArray
from placement_gym.graph import group
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

GIB = 1 << 30
N_UNITS = 20
MS = {"CPU": 4.0, "GPU": 1.0, "NPU": 2.0}
"""Time of a unit by kind of device."""


class FakeCore:
    """A machine with the devices it is told to have.

    Args:
        devices: Names.
        memory: Bytes that GPUs and NPUs report; None if they report nothing.
        types: What ``DEVICE_TYPE`` is by device; those that are missing do not have it.
        allocation: Bytes that GPUs report as their largest allocation; None if they report none.
    """

    def __init__(
        self,
        *devices: str,
        memory: int | None = None,
        types: dict[str, str] | None = None,
        allocation: int | None = None,
    ) -> None:
        self.available_devices = list(devices)
        self.memory, self.types, self.allocation = memory, types or {}, allocation
        self.registered: list[tuple[str, str]] = []

    def properties(self, device: str) -> dict[str, Any]:
        kind, found = device.split(".")[0], {}
        if self.memory is not None and kind in ("GPU", "NPU"):
            found[f"{kind}_DEVICE_TOTAL_MEM_SIZE"] = self.memory
        if self.allocation is not None and kind == "GPU":
            found["GPU_DEVICE_MAX_ALLOC_MEM_SIZE"] = self.allocation
        if device in self.types:
            found["DEVICE_TYPE"] = self.types[device]
        return found

    def get_property(self, device: str, key: str) -> Any:
        found = self.properties(device)
        return list(found) if key == "SUPPORTED_PROPERTIES" else found[key]

    def register_plugin(self, plugin: str, name: str) -> None:
        self.registered.append((plugin, name))
        self.available_devices.append(name)


def laptop(*devices: str) -> FakeCore:
    """A CPU with an integrated GPU or NPU of 8 GiB each."""
    names = devices or ("CPU", "GPU")
    return FakeCore(*names, memory=8 * GIB, types=dict.fromkeys(names, "Type.INTEGRATED"))


def heavy_problem(devices: Sequence[DeviceSpec], model_bytes: int = 10 * GIB) -> Problem:
    """A chain of ``N_UNITS`` equal units that hold the model's bytes."""
    graph = made_graph(N_UNITS, [(unit, [unit + 1]) for unit in range(N_UNITS - 1)])
    held = np.full(N_UNITS, model_bytes // N_UNITS)
    graph = replace(graph, model="heavy", weight_bytes=held)
    supported = np.ones((N_UNITS, len(devices)), dtype=np.bool_)
    return Problem(group(graph, "op"), tuple(devices), supported)


class CliffEngine(MeasuredBackend):
    """Measures by exact costs; a device that holds more than it reports is slower by a factor.

    Args:
        problem: Of ``heavy_problem``.
        cliff: The factor.
        protocol: Only its objective matters.
    """

    def __init__(
        self, problem: Problem, cliff: float = 1.0, protocol: TimingProtocol = QUICK
    ) -> None:
        super().__init__(NO_ENGINE, problem, protocol=protocol)
        self.cliff = cliff
        self.measured: list[list[int]] = []
        ms = [[MS[device.kind] for device in problem.devices]] * N_UNITS
        apart = 1.0 - np.eye(len(problem.devices))
        self.costs = cost_table(
            problem.units.graph, ms, [0.1] * (N_UNITS - 1), link_ms_per_size=apart
        )
        self.costs = replace(self.costs, devices=problem.device_names)

    @property
    def tolerance(self) -> float:
        return 1e-4

    def factors(self, assignment: IntArray) -> FloatArray:
        over = self.problem.memory_bytes(assignment) > self.problem.reported_bytes
        return np.where(over, self.cliff, 1.0)

    def latency_ms(self, assignment: IntArray) -> float:
        operator_ms = self.costs.operator_ms * self.factors(assignment)
        twin = SimulatedBackend(self.problem, replace(self.costs, operator_ms=operator_ms))
        return twin.evaluate_ignoring_limits(assignment).latency_ms

    @property
    def reference_ms(self) -> float:
        return self.latency_ms(self.problem.single(self.problem.reference_device))

    def measure_once(self, assignment: IntArray, rival: float = 0.0) -> Measurement:
        self.measured.append(assignment.tolist())
        ms = self.latency_ms(assignment)
        return Measurement(ms, self.reference_ms, ms, noise=0.01, n_submodels=1)

    def measure_operators(self, device: int, prefill: bool = False) -> FloatArray:
        alone = self.problem.single(device)
        self.measured.append(alone.tolist())
        return self.costs.operator_ms[:, device] * self.factors(alone)[device]

    def cost_table(self) -> CostTable:
        return load_or_measure(self)

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        first_ms = self.latency_ms(assignments[0])
        return [replace(self.measure_once(one), reference_ms=first_ms) for one in assignments]

    def check_reference(self) -> None:
        """Nothing to check."""

    @property
    def steady(self) -> list[bool]:
        return [True]

    @property
    def comparison_rules(self) -> list[str]:
        return []

    def own_choice(self, plugin: str) -> IntArray:
        raise NotImplementedError

    def restart(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is open."""
