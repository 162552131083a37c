"""The minimum cut against brute force, and the headroom of ``hsdag-paper``."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from by_hand import cost_table, made_graph

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.devices import DeviceSpec
from placement_gym.graph.units import group
from placement_gym.problem import Problem
from placement_gym.solvers.mincut import minimum_cut
from placement_gym.twin import twin_of

HEADROOM = {"inception": (12.5, 20.0), "resnet": (2.0, 8.0), "bert-8": (4.0, 8.0)}
PUBLISHED_MS = {"inception": (12.8, 12.0), "resnet": (16.0, 7.81), "bert-8": (6.38, 2.77)}


def random_backend(seed: int) -> SimulatedBackend:
    """Up to nine operators, some with two tensors and many readers, on two devices."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 10))
    read = [(source, np.flatnonzero(rng.random(n) < 0.4)) for source in range(n) for _ in range(2)]
    made = [(source, readers[readers > source].tolist()) for source, readers in read]
    graph = made_graph(n, [(source, readers) for source, readers in made if readers])
    units = group(graph, "op" if seed % 2 else "colocated")
    n_tensors = len(graph.tensors.source)
    costs = cost_table(
        graph,
        rng.integers(0, 10, (n, 2)) + rng.random((n, 2)),
        rng.integers(1, 9, n_tensors),
        link_ms=rng.random((2, 2)),
        link_ms_per_volume=rng.random((2, 2)),
    )
    devices = tuple(DeviceSpec(name) for name in costs.devices)
    problem = Problem(units, devices, np.ones((len(units), 2), dtype=np.bool_))
    return SimulatedBackend(problem, costs)


@pytest.mark.parametrize("seed", range(120))
def test_no_placement_is_faster_than_the_minimum_cut(seed: int) -> None:
    backend = random_backend(seed)
    cut = minimum_cut(backend.problem.units, backend.costs)
    every = np.array(list(product(range(2), repeat=backend.problem.n_units)))
    fastest = backend.exact_batch(every)[0].min()
    assert backend.score(cut).latency_ms == pytest.approx(fastest, rel=1e-6)


def test_three_devices_are_refused() -> None:
    twin = twin_of("tiny", "cpu+2dgpu")
    with pytest.raises(ValueError, match="two devices, not 3"):
        minimum_cut(twin.problem.units, twin.costs)


@pytest.mark.parametrize("model", list(PUBLISHED_MS))
def test_the_paper_preset_has_the_published_single_devices(model: str) -> None:
    twin = twin_of(model, "hsdag-paper")
    assert twin.costs.operator_ms.sum(axis=0) == pytest.approx(PUBLISHED_MS[model], rel=0.05)


@pytest.mark.parametrize("model", list(HEADROOM))
def test_the_paper_preset_has_the_published_headroom(model: str) -> None:
    twin = twin_of(model, "hsdag-paper")
    backend = SimulatedBackend(twin.problem, twin.costs)
    cut = minimum_cut(twin.problem.units, twin.costs)
    optimum = backend.score(cut).latency_ms
    best_single = min(backend.score(twin.problem.single(d)).latency_ms for d in range(2))
    lowest, highest = HEADROOM[model]
    assert lowest <= 100 * (1 - optimum / best_single) <= highest
