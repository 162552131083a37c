"""Problems of ``sequential.py``: drawn ones, and published workloads by role."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem, make_problem
from placement_gym.costs.analytic import analytic
from placement_gym.costs.semantics import parse_schedule
from placement_gym.devices import DeviceSpec
from placement_gym.env import DevicePlacementEnv
from placement_gym.graph.synthetic import FAMILIES, synthetic
from placement_gym.graph.units import group

SHARES = (0.4, 0.4, 0.1, 0.1)
"""Of the families; the last two have one graph of a size, so that other sizes are much alike."""
ACCELERATORS = ("GPU", "iGPU", "NPU")
BY_RANK = {"preset": "list", "order": "priority"}
TRAINED = ("OperatorGraphs/bert_l-3_inference", "LayerGraphs/bert24_inference")
TRAINED_ON = (
    *("1cpu+1acc@0.5", "1cpu+2acc@0.3", "1cpu+3acc@0.2", "1cpu+4acc@0.2"),
    *("1cpu+2acc@0.15", "2cpu+2acc@0.25", "1cpu+2acc"),
)
VALIDATED = ("LayerGraphs/resnet50_inference",)
TESTED = (
    "LayerGraphs/inceptionv3_inference",
    "OperatorGraphs/resnet50_inference",
    "OperatorGraphs/bert_l-12_inference",
)
LIMITED = ("1cpu+2acc@0.3", "1cpu+4acc@0.2")
N_DRAWN = 8
"""Drawn problems for validation, and as many for tests."""

Problems = dict[str, DevicePlacementEnv]


def training_problems(data: Path, n: int, seed: int) -> Problems:
    """``n`` drawn problems and published workloads, as everything below under list schedules."""
    rng = np.random.default_rng(seed)
    drawn = {f"drawn {i}": draw_problem(rng, 40, 300, parity=0) for i in range(n)}
    return drawn | load_workloads(data, TRAINED, TRAINED_ON)


def validation_problems(data: Path) -> Problems:
    """For the choice of settings."""
    rng = np.random.default_rng(777)
    drawn = {f"drawn v{i}": draw_problem(rng, 80, 400, parity=1) for i in range(N_DRAWN)}
    return drawn | load_workloads(data, VALIDATED, LIMITED)


def test_problems(data: Path) -> Problems:
    """For the table alone."""
    rng = np.random.default_rng(999)
    drawn = {f"drawn t{i}": draw_problem(rng, 80, 500, parity=1) for i in range(N_DRAWN)}
    return drawn | load_workloads(data, TESTED, LIMITED)


def load_workloads(data: Path, models: tuple[str, ...], devices: tuple[str, ...]) -> Problems:
    """Published workloads, each on several sets of devices."""
    semantics = parse_schedule(BY_RANK, "latency")
    problems = {}
    for model in models:
        for counts in devices:
            path = data / "latency-inputs" / f"{model}.json"
            built = build_simulated_problem(str(path), counts, "op")
            backend = SimulatedBackend(built.problem, built.costs, semantics)
            problems[f"{model} {counts}"] = DevicePlacementEnv(backend, observe_graph=False)
    return problems


def draw_problem(
    rng: np.random.Generator, least: int, most: int, parity: int
) -> DevicePlacementEnv:
    """Draw a graph, devices, limits, and prices of transfers.

    Args:
        rng: Draws them.
        least: Size of the graph that is asked for.
        most: Likewise.
        parity: 0 for even sizes, 1 for odd ones: sizes are the seeds of graphs, so that training
            and tests share none.
    """
    family = rng.choice(FAMILIES, p=SHARES)
    n = 2 * (int(np.exp(rng.uniform(np.log(least), np.log(most)))) // 2) + parity
    units = group(synthetic(f"{family}-{n}"), "op")
    devices = draw_devices(rng)
    costs = analytic(units.graph, devices)
    slower = np.ones(len(devices))
    transfers = float(np.exp(rng.uniform(-1.0, 3.0)))
    slower[0] = np.exp(rng.uniform(-0.5, 1.5))
    costs = replace(costs.scaled(slower), transfer_size=costs.transfer_size * transfers)
    backend = SimulatedBackend(
        make_problem(units, devices, costs), costs, parse_schedule(BY_RANK, "latency")
    )
    return DevicePlacementEnv(backend, observe_graph=False)


def draw_devices(rng: np.random.Generator) -> tuple[DeviceSpec, ...]:
    """A CPU and one to four accelerators, equal or mixed, most with limits."""
    count = int(rng.integers(1, 5))
    kind = rng.choice(ACCELERATORS, p=(0.6, 0.2, 0.2))
    share = np.exp(rng.uniform(np.log(0.08), np.log(0.6))) if rng.random() < 0.8 else None
    mixed = rng.random() < 0.35
    devices = [DeviceSpec("CPU", roofline="CPU")]
    for i in range(count):
        roofline, limit = str(kind), share
        if mixed:
            roofline = str(rng.choice(ACCELERATORS))
            limit = None if share is None else min(1.0, share * np.exp(rng.normal(0.0, 0.4)))
        weight_share = None if limit is None else float(limit)
        devices.append(DeviceSpec(f"A{i}", roofline=roofline, weight_share=weight_share))
    return tuple(devices)
