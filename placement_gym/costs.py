"""Additive costs: the time of each unit on each device, and of moving a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_gym.devices import DeviceSpec
from placement_gym.graph.operators import IntArray, OpGraph
from placement_gym.problem import Problem


@dataclass(frozen=True)
class Roofline:
    """What bounds an operator's time: arithmetic or memory traffic, after a fixed launch."""

    gflops: float
    gbytes_per_s: float
    launch_ms: float


ROOFLINES = {
    "CPU": Roofline(gflops=400.0, gbytes_per_s=40.0, launch_ms=0.001),
    "GPU": Roofline(gflops=8000.0, gbytes_per_s=300.0, launch_ms=0.006),
    "NPU": Roofline(gflops=4000.0, gbytes_per_s=60.0, launch_ms=0.010),
}
CORES = 8
LINK_GBYTES_PER_S = 12.0
LINK_MS = 0.010


@dataclass(frozen=True, eq=False)
class CostTable:
    """Costs that add up along a serial execution.

    Attributes:
        unit_ms: (n_units, n_devices) float64 time of each unit on each device.
        transfer_ms: (n_tensors,) float64 time to move each tensor to another device.
    """

    unit_ms: NDArray[np.float64]
    transfer_ms: NDArray[np.float64]

    def serial_ms(self, problem: Problem, assignment: IntArray) -> float:
        """HETERO's semantics: unit times, and each tensor once per foreign destination."""
        moved, _ = problem.transfers(assignment)
        units = self.unit_ms[np.arange(len(assignment)), assignment]
        return float(units.sum() + self.transfer_ms[moved].sum())


def analytic(problem: Problem) -> CostTable:
    """Costs from shipped constants: a roofline for each kind of device and one kind of link."""
    graph, units = problem.units.graph, problem.units
    unit_ms = np.stack(
        [
            np.bincount(units.of_operator, operator_ms(graph, roofline(device)), len(units))
            for device in problem.devices
        ],
        axis=1,
    )
    moved = units.quotient.tensors.size_bytes
    return CostTable(unit_ms.astype(np.float64), LINK_MS + moved / (LINK_GBYTES_PER_S * 1e6))


def roofline(device: DeviceSpec) -> Roofline:
    """Of the device's kind; a CPU limited to some threads has its share of ``CORES``."""
    full = ROOFLINES.get(device.kind, ROOFLINES["GPU"])
    if device.kind != "CPU" or device.threads is None:
        return full
    return Roofline(full.gflops * device.threads / CORES, full.gbytes_per_s, full.launch_ms)


def operator_ms(graph: OpGraph, device: Roofline) -> NDArray[np.float64]:
    """(n_operators,) launch and the slower of arithmetic and traffic."""
    written = np.bincount(graph.tensors.source, graph.tensors.size_bytes, len(graph))
    read = np.zeros(len(graph))
    tensor, reader = graph.tensors.readings()
    np.add.at(read, reader, graph.tensors.size_bytes[tensor])
    traffic_ms = (graph.weight_bytes + written + read) / (device.gbytes_per_s * 1e6)
    return device.launch_ms + np.maximum(graph.flops / (device.gflops * 1e6), traffic_ms)
