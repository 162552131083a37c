"""Annealing of loads: feasible, never worse than its start, and near the optimum of small ones."""

from __future__ import annotations

import numpy as np
import pytest
from alike import draw_alike
from by_hand import chain, cost_table, find_least_ms, grouped, problem_of
from pipelines import draw_backend

from placement_gym import CostTable, UserError
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.problem import Problem
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.balance import balance_loads, find_start
from placement_gym.solvers.fill import fill_in_order
from placement_gym.solvers.pipelines.pipeline import find_largest_load_ms, linear_pipeline
from placement_gym.solvers.search.chains import Chains


@pytest.mark.parametrize("seed", range(12))
def test_loads_after_moves_are_those_of_the_placement(seed: int) -> None:
    backend = draw_backend(seed, 9, "ABBC", limited=True, coloured=seed % 2 == 0, training=True)
    problem, costs = backend.problem, backend.costs
    simulator = Simulator(problem.units, costs, PRESETS["tarnawski-throughput"])
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
    problem, costs = backend.problem, backend.costs
    start = np.zeros(problem.n_units, dtype=np.int64)
    if problem.infeasibility(start):
        pytest.skip("the host does not support all units")
    found = balance_loads(problem, costs, start, seed, n_moves=20_000)
    assert not problem.infeasibility(found)
    least = find_least_ms(backend)
    assert find_largest_load_ms(problem, costs, found) == pytest.approx(least, rel=1e-6)


def test_a_seed_makes_it_reproducible_and_the_start_is_kept() -> None:
    backend = draw_backend(3, 12, "ABB")
    problem, costs = backend.problem, backend.costs
    start = np.zeros(problem.n_units, dtype=np.int64)
    first, again = (balance_loads(problem, costs, start, 5, n_moves=500) for _ in range(2))
    assert (first == again).all()
    assert (start == 0).all()
    none = balance_loads(problem, costs, start, 5, n_moves=0)
    assert (none == start).all()


def equal_devices(held: list[int]) -> tuple[Problem, CostTable]:
    """A chain of operators of 1 ms on two devices of 4 bytes each."""
    n = len(held)
    costs = cost_table(chain(n), np.ones((n, 2)), np.ones(n - 1))
    return problem_of(grouped(chain(n)), costs, np.array(held), memory_bytes=[4, 4]), costs


def test_repaired_filling_is_the_start_without_contiguous_splits() -> None:
    problem, costs = equal_devices([3, 3, 1, 1])
    with pytest.raises(UserError, match="contiguous"):
        linear_pipeline(problem, costs)
    start = find_start(problem, costs)
    assert not problem.infeasibility(start)
    assert not problem.infeasibility(balance_loads(problem, costs, start, n_moves=100))


def test_where_nothing_fits_there_is_an_error() -> None:
    with pytest.raises(UserError, match="memory"):
        find_start(*equal_devices([5, 3]))
