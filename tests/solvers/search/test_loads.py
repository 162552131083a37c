# White-box tests of solvers.search
"""The search under loads: feasible, near the optimum of small problems, and loads as simulated."""

from __future__ import annotations

import numpy as np
import pytest
from alike import draw_alike
from by_hand import chain, cost_table, find_least_ms, grouped, problem_of
from pipelines import THROUGHPUT, draw_backend

from placement_gym.base import UserError
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.schedules import Simulator
from placement_gym.solvers import fill_in_order
from placement_gym.solvers.pipelines import find_largest_load_ms, linear_pipeline
from placement_gym.solvers.search import search
from placement_gym.solvers.search.chains import Chains


@pytest.mark.parametrize("seed", range(12))
def test_loads_after_moves_are_those_of_the_placement(seed: int) -> None:
    backend = draw_backend(seed, 9, "ABBC", limited=True, coloured=seed % 2 == 0, training=True)
    problem, costs = backend.problem, backend.costs
    simulator = Simulator(problem.units, costs, THROUGHPUT)
    chains = Chains(problem, simulator, np.random.default_rng(seed))
    state = chains.start(fill_in_order(problem, costs))
    for _ in range(30):
        chains.anneal(state, 10, (0.1, 0.1))
        assert state.load.max() == pytest.approx(find_largest_load_ms(problem, costs, state.place))
        held = np.bincount(state.place, problem.unit_bytes, len(problem.devices))
        assert state.used == pytest.approx(held[np.isfinite(problem.limits_bytes)])


@pytest.mark.parametrize("seed", range(12))
def test_small_problems_are_solved_within_limits_and_support(seed: int) -> None:
    backend = draw_alike(seed)
    problem, costs, least = backend.problem, backend.costs, find_least_ms(backend)
    rng = np.random.default_rng(seed)
    found = search(problem, costs, THROUGHPUT, evaluations=40, rng=rng)
    assert found.latency_ms == pytest.approx(least, rel=1e-6)
    if np.isfinite(least):
        assert not problem.infeasibility(found.assignment)
        assert find_largest_load_ms(problem, costs, found.assignment) == pytest.approx(least)


def equal_devices(held: list[int]) -> tuple[Problem, CostTable]:
    """A chain of operators of 1 ms on two devices of 4 bytes each."""
    n = len(held)
    costs = cost_table(chain(n), np.ones((n, 2)), np.ones(n - 1))
    return problem_of(grouped(chain(n)), costs, np.array(held), memory_bytes=[4, 4]), costs


def test_a_split_is_found_where_no_contiguous_one_fits() -> None:
    problem, costs = equal_devices([3, 3, 1, 1])
    with pytest.raises(UserError, match="contiguous"):
        linear_pipeline(problem, costs)
    found = search(problem, costs, THROUGHPUT, evaluations=5)
    assert not problem.infeasibility(found.assignment)


def test_where_nothing_fits_the_load_is_infinite() -> None:
    assert search(*equal_devices([5, 3]), THROUGHPUT, evaluations=5).latency_ms == np.inf
