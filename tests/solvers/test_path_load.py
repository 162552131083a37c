"""The path-load program lies below every placement of every overlapping schedule."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from by_hand import grouped, random_backend

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import Semantics
from placement_gym.problem import Problem
from placement_gym.solvers.path_load import solve

EXACT = 1.0 + 1e-6
OVERLAPPING = [
    Semantics("list", contention="none"),
    Semantics("list", contention="none", order="priority"),
    Semantics("list", transfer="edge", contention="both", op_gap_ms=0.1),
    Semantics("event"),
    Semantics("event", transfer="output", link_gap_ms=0.1),
    Semantics("event", transfer="edge", contention="none"),
    Semantics("event", contention="link", order="priority"),
]


def drawn(seed: int, semantics: Semantics, most: int = 7) -> SimulatedBackend:
    """A random problem; every second one in units of any operators."""
    backend = random_backend(seed, most=most)
    rng = np.random.default_rng(seed)
    problem, costs = backend.problem, backend.costs
    if seed % 3 == 1:  # the form of published workloads
        side = rng.random(len(costs.devices))
        apart = ~np.eye(len(side), dtype=bool)
        costs = replace(costs, link_ms=apart * 0.0, link_ms_per_size=(side[:, None] + side) * apart)
    if seed % 2:
        n = problem.n_units
        units = grouped(
            problem.units.graph, np.unique(rng.integers(0, n, n), return_inverse=True)[1]
        )
        supported = costs.units_supported(units)
        problem = Problem(units, problem.devices, supported, problem.operator_bytes)
    return SimulatedBackend(problem, costs, semantics)


def all_placements(backend: SimulatedBackend) -> tuple[IntArray, FloatArray, BoolArray]:
    problem = backend.problem
    every = np.array(list(product(range(len(problem.devices)), repeat=problem.n_units)))
    return every, *backend.evaluate_batch_exactly(every)


@pytest.mark.parametrize("semantics", OVERLAPPING)
@pytest.mark.parametrize("seed", range(12))
def test_no_placement_is_below_the_bounds(seed: int, semantics: Semantics) -> None:
    backend = drawn(seed, semantics)
    _, latency_ms, feasible = all_placements(backend)
    divided = solve(backend.problem, backend.costs, whole=False).bound_ms
    whole = solve(backend.problem, backend.costs)
    least = latency_ms[feasible].min(initial=np.inf)
    assert divided <= whole.bound_ms * EXACT
    assert whole.bound_ms <= least * EXACT
    assert np.isinf(least) or whole.assignment is not None


@pytest.mark.parametrize("seed", range(30))
def test_the_order_of_a_list_and_kept_units_count(seed: int) -> None:
    backend = drawn(2 * seed, Semantics("list", contention="none"))
    problem, rng = backend.problem, np.random.default_rng(seed)
    every, latency_ms, feasible = all_placements(backend)
    start = every[feasible][rng.integers(feasible.sum())]
    free = rng.random(problem.n_units) < 0.5
    same = feasible & (every == start)[:, ~free].all(axis=1)
    upper_ms = latency_ms[(every == start).all(axis=1)].item()
    order = np.arange(len(problem.units.graph))
    args = {"free": free, "start": start, "upper_ms": upper_ms}
    relaxed = solve(problem, backend.costs, **args)
    found = solve(problem, backend.costs, **args, order=order)
    assert relaxed.bound_ms <= found.bound_ms * EXACT
    assert found.bound_ms <= latency_ms[same].min() * EXACT
    assert found.assignment is None or (found.assignment == start)[~free].all()
