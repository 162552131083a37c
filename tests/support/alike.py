"""Problems of a few units on equal accelerators."""

from __future__ import annotations

import numpy as np
from by_hand import draw_labels, draw_made, grouped, made_graph

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.hardware import make_devices
from placement_gym.problem import Problem
from placement_gym.problem.costs import PRESETS, Workload

LOAD = PRESETS["tarnawski-throughput"]


def draw_alike(seed: int) -> SimulatedBackend:
    """A few units in colour classes, one or two cores and two or three equal accelerators."""
    rng = np.random.default_rng(seed)
    n, cores, accelerators = int(rng.integers(3, 7)), int(rng.integers(1, 3)), 2 + seed % 2
    graph = made_graph(n, draw_made(rng, n, share=0.5))
    workload = Workload(
        graph,
        np.arange(n),
        host_ms=rng.random(n) * 9,
        accelerator_ms=rng.random(n) * 3,
        supported=rng.random(n) < 0.9,
        transfer_ms=rng.random(len(graph.tensors.source)),
        n_accelerators=accelerators,
        accelerator_bytes=0,
    )
    devices = make_devices(cores, accelerators, weight_share=float(rng.choice([0.3, 0.5, 1.0])))
    units = grouped(graph, draw_labels(rng, n))
    costs = workload.costs(devices)
    held = rng.integers(0, 100, n)
    return SimulatedBackend(
        Problem(units, devices, costs.units_supported(units), held), costs, LOAD
    )
