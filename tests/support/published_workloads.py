"""Where the published workloads lie, and backends of them."""

from __future__ import annotations

from pathlib import Path

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.hardware import parse_counts
from placement_gym.problem import Problem
from placement_gym.problem.costs import Semantics, Workload

DATA = Path(__file__).resolve().parents[1] / "data/dnn-partitioning"


def published(
    name: str, semantics: Semantics, devices: str = "", granularity: str = "colocated"
) -> SimulatedBackend:
    """A published workload, by default on the devices of its publication."""
    workload = Workload.load(DATA / f"{name}.json")
    specs = parse_counts(devices) if devices else workload.devices
    costs, units = workload.costs(specs), workload.units(granularity)
    problem = Problem(units, specs, costs.units_supported(units), costs.memory_bytes)
    return SimulatedBackend(problem, costs, semantics)
