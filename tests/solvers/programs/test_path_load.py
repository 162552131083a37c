"""The path-load program lies below every placement of every overlapping schedule."""

from __future__ import annotations

import numpy as np
import pytest
from overlapping import OVERLAPPING, all_placements, drawn

from placement_gym.problem.costs.semantics import Semantics
from placement_gym.solvers.programs.path_load import solve

EXACT = 1.0 + 1e-6


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
