"""Pipelines: the published values, and brute force on small graphs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from by_hand import cost_table, grouped, ints, made_graph
from published import DATA

from placement_gym.arrays import IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import PRESETS
from placement_gym.costs.workloads import Workload, make_devices
from placement_gym.devices import DeviceSpec
from placement_gym.problem import Problem
from placement_gym.solvers.forward import Forward
from placement_gym.solvers.ideals import (
    TooManyIdealsError,
    enumerate_ideals,
    exact_pipeline,
    find_chains,
    linear_pipeline,
)

THROUGHPUT = PRESETS["tarnawski-throughput"]
LAYERS, OPERATORS = "LayerGraphs", "OperatorGraphs"
VALUES = [
    (f"{LAYERS}/bert24_inference", 17.7899, 17.7899, None),
    (f"{LAYERS}/bert24_training", 41.7458, 41.7458, None),
    (f"{LAYERS}/resnet50_inference", 33.7747, 33.7747, 242),
    (f"{LAYERS}/resnet50_training", 78.6318, 78.6498, 242),
    (f"{OPERATORS}/bert_l-3_inference", 27.9186, 27.9186, 1428),
    (f"{OPERATORS}/bert_l-3_training", 65.3031, 65.3031, 2774),
    (f"{OPERATORS}/resnet50_inference", 124.3488, 124.349, 241),
]
"""Least largest load in ms by DP and by DPL, and the number of ideals (Tarnawski et al. 2020).

Of bert24 the publication's program counts 30 ideals, there are 39.
"""


def published(path: Path) -> SimulatedBackend:
    workload = Workload.load(path)
    limit = {"memory_bytes": workload.accelerator_bytes}
    devices = make_devices(1, workload.n_accelerators, **limit)
    units, costs = workload.units(), workload.costs(devices)
    problem = Problem(units, devices, costs.units_supported(units), costs.memory_bytes)
    return SimulatedBackend(problem, costs, THROUGHPUT)


def load_ms(backend: SimulatedBackend, assignment: IntArray) -> float:
    assert backend.infeasibility(assignment) == ""
    return backend.evaluate_ignoring_limits(assignment).latency_ms


@pytest.mark.parametrize(("name", "dp_ms", "dpl_ms", "n_ideals"), VALUES)
def test_pipelines_reach_the_published_loads(
    name: str, dp_ms: float, dpl_ms: float, n_ideals: int | None
) -> None:
    backend = published(DATA / "throughput-inputs" / f"{name}.json")
    problem, costs = backend.problem, backend.costs
    assert load_ms(backend, linear_pipeline(problem, costs)) == pytest.approx(dpl_ms, rel=1e-4)
    assert len(enumerate_ideals(Forward.of(problem.units))) == (n_ideals or 39)
    assert load_ms(backend, exact_pipeline(problem, costs)) == pytest.approx(dp_ms, rel=5e-6)


def random_backend(seed: int) -> SimulatedBackend:
    """Up to six operators in up to six units, on a host and two accelerators, some alike."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    read = [(source, np.flatnonzero(rng.random(n) < 0.4)) for source in range(n)]
    made = [(source, readers[readers > source].tolist()) for source, readers in read]
    graph = made_graph(n, [(source, readers) for source, readers in made if readers])
    units = grouped(graph, np.arange(n))
    ms = rng.integers(1, 9, (n, 3)).astype(float)
    if seed % 2:
        ms[:, 2] = ms[:, 1]
    costs = cost_table(graph, ms, rng.random(len(graph.tensors.source)), host=[True, False, False])
    names = costs.devices
    devices = (DeviceSpec(names[0]), *(DeviceSpec(name, weight_share=0.6) for name in names[1:]))
    supported = rng.random((n, 3)) < 0.9
    supported[:, 0] = True
    problem = Problem(units, devices, supported, rng.integers(0, 100, n))
    return SimulatedBackend(problem, costs, THROUGHPUT)


def is_pipeline(backend: SimulatedBackend, assignment: IntArray) -> bool:
    """Whether devices can be put in an order in which nothing flows back."""
    edges = assignment[backend.problem.units.graph.edge_index]
    flow = nx.DiGraph(edges[:, edges[0] != edges[1]].T.tolist())
    return nx.is_directed_acyclic_graph(flow)


@pytest.mark.parametrize("seed", range(60))
def test_no_pipeline_has_a_smaller_largest_load(seed: int) -> None:
    backend = random_backend(seed)
    problem = backend.problem
    every = (ints(one) for one in product(range(3), repeat=problem.n_units))
    possible = [
        one for one in every if is_pipeline(backend, one) and not problem.infeasibility(one)
    ]
    best = min(backend.evaluate_ignoring_limits(one).latency_ms for one in possible)
    found = exact_pipeline(problem, backend.costs)
    assert is_pipeline(backend, found)
    assert load_ms(backend, found) == pytest.approx(best)
    assert load_ms(backend, linear_pipeline(problem, backend.costs)) >= best - 1e-9


def test_one_compiled_program_serves_graphs_with_one_tensor_and_with_several() -> None:
    for seed in range(8):
        backend = random_backend(seed)
        exact_pipeline(backend.problem, backend.costs)
    assert len(find_chains.signatures) == 1


def test_a_graph_that_is_too_wide_is_refused_with_what_to_do() -> None:
    wide = grouped(made_graph(20, []), np.arange(20))
    with pytest.raises(TooManyIdealsError, match=r"more than 1000 ideals.*dpl"):
        enumerate_ideals(Forward.of(wide), 1000)


def test_ideals_of_a_diamond() -> None:
    units = grouped(made_graph(4, [(0, [1, 2]), (1, [3]), (2, [3])]), np.arange(4))
    assert [ideal.sum() for ideal in enumerate_ideals(Forward.of(units))] == [0, 1, 2, 2, 3, 4]


def test_what_fits_nowhere_is_refused() -> None:
    backend = random_backend(4)
    problem = backend.problem
    tight = tuple(DeviceSpec(device.name, memory_bytes=0) for device in problem.devices)
    held = np.full(len(problem.units.graph), 10)
    with pytest.raises(ValueError, match="no contiguous split fits"):
        exact_pipeline(Problem(problem.units, tight, problem.supported, held), backend.costs)
