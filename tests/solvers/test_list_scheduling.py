"""List scheduling: worked examples, limits, and what every one of them keeps to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from by_hand import Made, cost_table, grouped, made_graph, problem_of

from placement_gym import CostTable
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.graph.units import group
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.problem import Problem
from placement_gym.solvers.list_scheduling import PartialSchedule, critical_path, heft, m_etf, merge
from placement_gym.solvers.tasks import Tasks

Solver = Callable[[Problem, CostTable], IntArray]
SOLVERS = [heft, critical_path, m_etf]
ALL = pytest.mark.parametrize("solver", SOLVERS)


def small(
    made: Made, operator_ms: object, transfer_size: object, shares: tuple[float | None, ...] = ()
) -> tuple[Problem, CostTable]:
    """Operators as units on devices of which some hold a share of the weights only."""
    ms: FloatArray = np.array(operator_ms, dtype=np.float64)
    graph = made_graph(len(ms), made)
    costs = cost_table(graph, ms, transfer_size)
    limits = shares or (None,) * ms.shape[1]
    units, held = group(graph, "op"), np.full(len(ms), 10)
    return problem_of(units, costs, held, weight_share=limits), costs


def test_heft_spreads_independent_operators_over_equal_devices() -> None:
    problem, costs = small([], [[4, 4], [3, 3], [2, 2], [1, 1]], [])
    chosen = heft(problem, costs)
    loads = np.bincount(chosen, [4.0, 3.0, 2.0, 1.0], 2)
    assert loads.max() == 5.0


CHAIN: Made = [(0, [1]), (1, [2])]


@pytest.mark.parametrize(
    ("operator_ms", "transfer_ms", "expected"),
    [
        ([[2, 3], [3, 2], [2, 3]], 5.0, [0, 0, 0]),
        ([[1, 9], [20, 1], [1, 9]], 1.0, [0, 1, 0]),
    ],
)
def test_heft_moves_an_operator_of_a_chain_only_if_that_pays(
    operator_ms: list[list[int]], transfer_ms: float, expected: list[int]
) -> None:
    problem, costs = small(CHAIN, operator_ms, [transfer_ms] * 2)
    assert heft(problem, costs).tolist() == expected


@pytest.fixture
def partial() -> PartialSchedule:
    problem, costs = small([], [[2, 2]] * 4, [])
    return PartialSchedule(problem, Tasks.in_topological_order(problem.units, costs))


def test_a_task_starts_in_the_first_gap_that_holds_it(partial: PartialSchedule) -> None:
    partial.blocks[0] = [(0.0, 2.0), (3.0, 5.0), (9.0, 11.0)]
    assert partial.start_ms(0, 0.0, 1.0) == 2.0
    assert partial.start_ms(0, 0.0, 2.0) == 5.0
    assert partial.start_ms(0, 6.0, 3.0) == 6.0
    assert partial.start_ms(0, 6.0, 4.0) == 11.0


def test_work_that_touches_becomes_one_block() -> None:
    rng, blocks, busy = np.random.default_rng(0), list[tuple[float, float]](), np.zeros(60, bool)
    for start in rng.permutation(30):
        merge(blocks, 2.0 * start, 2.0 * start + 2.0)
        busy[2 * start : 2 * start + 2] = True
        edges = np.flatnonzero(np.diff([0, *busy.astype(int), 0])).astype(float)
        assert blocks == list(zip(edges[::2], edges[1::2], strict=True))


def test_a_task_without_time_fits_between_two_that_touch(partial: PartialSchedule) -> None:
    partial.place(0, 0, 0.0)
    partial.place(1, 0, 2.0)
    assert partial.start_ms(0, 1.0, 0.0) == 2.0
    assert partial.start_ms(0, 1.0, 0.5) == 4.0


@ALL
def test_limits_and_support_hold(solver: Solver) -> None:
    twin = build_simulated_problem(
        ModelSpec("inception"), ["CPU", {"name": "GPU", "weight_share": 0.3}]
    )
    supported = twin.problem.supported.copy()
    supported[::5, 1] = False
    problem = Problem(twin.problem.units, twin.problem.devices, supported)
    assert problem.infeasibility(solver(problem, twin.costs)) == ""


@ALL
def test_units_in_a_circle_are_placed_whole(solver: Solver) -> None:
    units = grouped(made_graph(3, CHAIN), [0, 1, 0])
    costs = cost_table(units.graph, [[1, 2], [2, 1], [1, 2]], [1.0, 1.0])
    assert solver(problem_of(units, costs), costs).shape == (2,)


@ALL
def test_the_same_placement_comes_again(solver: Solver) -> None:
    twin = build_simulated_problem(ModelSpec("resnet", "op"), "cpu+2dgpu")
    first, second = (solver(twin.problem, twin.costs) for _ in range(2))
    assert (first == second).all()


def test_m_etf_starts_what_can_start_first() -> None:
    problem, costs = small([(0, [2])], [[1, 1], [1, 1], [1, 1]], [9.0])
    first, second, third = m_etf(problem, costs).tolist()
    assert first != second
    assert third == first
