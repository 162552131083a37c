"""Random problems with limits that bind and limits that do not, of devices and of memory pools."""

from __future__ import annotations

import numpy as np
from by_hand import cost_table, draw_labels, draw_made, grouped, made_graph
from overlapping import OVERLAPPING

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import PRESETS, Semantics

SEMANTICS = [
    *PRESETS.values(),
    *OVERLAPPING,
    Semantics("list", contention="none", memory="lifetime"),
    Semantics("event", memory="lifetime"),
    Semantics("serial", memory_penalty_ms_per_gb=1e7),
    Semantics("load", memory="off"),
]
POOLS = ["", "host", "host", "board"]
SHARES, POOL_SHARES = [np.inf, 0.2, 0.3, 0.5, 0.7], [0.6, 1.0, 3.0]
"""Limits, as shares of the bytes of all operators: two thirds of pools bind nothing."""


def draw_pooled(seed: int) -> SimulatedBackend:
    """A problem of at most 729 placements under one of ``SEMANTICS``, in turn."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([2, 3, 3, 3, 4]))
    n = int(rng.integers(2, {2: 9, 3: 7, 4: 5}[d]))
    graph = made_graph(n, draw_made(rng, n), size_bytes=20)
    units = grouped(graph, draw_labels(rng, n) if rng.random() < 0.5 else None)
    scale = 10.0 ** rng.integers(-3, 4)
    costs = cost_table(
        graph,
        scale * rng.integers(0, 10, (n, d)) * (1.0 + rng.random((n, d)) * (rng.random() < 0.5)),
        rng.integers(0, 9, len(graph.tensors.source)),
        link_ms=0.1 * scale * rng.random((d, d)),
        link_ms_per_size=0.3 * scale * rng.random((d, d)),
        submodel_ms=0.3 * scale * (rng.random() < 0.3),
        host=rng.random(d) < 0.4,
    )
    held = rng.integers(0, 100, n)
    # one limit for the devices of a pool: of several the least would bind nearly always
    pools = rng.choice(POOLS, d).tolist()
    if rng.random() < 0.6:  # a device with memory of its own between two that share
        pools[0], pools[1], pools[-1] = "host", "" if d > 2 else "host", "host"
    of_pool = {pool: rng.choice(POOL_SHARES) for pool in ("host", "board")}
    shares = [of_pool[pool] if pool else rng.choice(SHARES) for pool in pools]
    limits = np.array(shares) * max(held.sum(), 1)
    devices = tuple(
        DeviceSpec(name, memory_pool=pool, memory_bytes=int(limit) if limit < np.inf else None)
        for name, pool, limit in zip(costs.devices, pools, limits.tolist(), strict=True)
    )
    supported = rng.random((len(units), d)) < 0.85
    supported[:, rng.integers(d)] = True
    problem = Problem(units, devices, supported, held)
    return SimulatedBackend(problem, costs, SEMANTICS[seed % len(SEMANTICS)])
