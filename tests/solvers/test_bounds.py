# White-box tests of solvers
"""Lower bounds lie below every placement, and optima are named only where they are proven."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from by_hand import (
    cost_table,
    draw_labels,
    find_least_ms,
    grouped,
    made_graph,
    problem_of,
    random_backend,
    row_of_two,
)
from overlapping import LIST, diamonds

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray
from placement_gym.problem import Problem
from placement_gym.problem.costs import PRESETS, CostTable, Semantics
from placement_gym.solvers import (
    Linear,
    Tasks,
    add_placement,
    bounds,
    load_ms,
    lower_bound,
    minimize,
    optimum_or_bound,
    remaining_ms,
)
from placement_gym.solvers.bounds import call_tasks, path_ms
from placement_gym.solvers.tasks import earliest_on_devices_ms

SERIAL, CALLS = Semantics(), Semantics("calls")


def in_units(backend: SimulatedBackend, rng: np.random.Generator) -> SimulatedBackend:
    """The same operators and costs in units of any of them."""
    n = backend.problem.n_units
    units = grouped(backend.problem.units.graph, draw_labels(rng, n))
    supported = backend.costs.units_supported(units)
    problem = Problem(units, backend.problem.devices, supported, np.full(n, 10))
    return SimulatedBackend(problem, backend.costs)


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("seed", [0, 1, 2, 12, 13])
def test_no_placement_is_below_the_bound(name: str, seed: int) -> None:
    drawn = random_backend(seed)
    if seed >= 12:
        drawn = in_units(drawn, np.random.default_rng(seed))
    host = np.arange(len(drawn.costs.devices)) == 0
    costs = replace(drawn.costs, host=host, submodel_ms=np.full(len(host), 0.3 * (seed % 2)))
    backend = SimulatedBackend(drawn.problem, costs, PRESETS[name])
    bound_ms = lower_bound(backend.problem, costs, PRESETS[name]).bound_ms
    assert 0.0 < bound_ms <= find_least_ms(backend) * (1 + 1e-9)


def test_a_large_graph_is_bounded_by_path_and_load_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = diamonds(0)
    problem, costs = backend.problem, backend.costs
    tasks = Tasks.from_operators(problem.units, costs)
    simple_ms = max(load_ms(problem, costs), path_ms(problem, tasks))
    assert lower_bound(problem, costs, LIST).bound_ms > simple_ms
    monkeypatch.setattr(bounds, "MAX_READINGS", 0)
    assert lower_bound(problem, costs, LIST).bound_ms == simple_ms


def test_bounds_by_hand() -> None:
    problem, costs = row_of_two()
    assert path_ms(problem, Tasks.from_operators(problem.units, costs)) == 4.0
    # the first operator on the second device, which also takes a fifth of the second operator
    assert load_ms(problem, costs) == pytest.approx(1.6)
    limited, _ = row_of_two(memory_bytes=[None, 0])
    assert load_ms(limited, costs) == pytest.approx(6.0)


def test_loads_divide_equal_units_together_as_each_by_itself() -> None:
    units = grouped(made_graph(6, [(0, [1])]), np.arange(6))
    costs = cost_table(units.graph, [[4, 1], [4, 1], [4, 1], [2, 3], [2, 3], [1, 5]], [1])
    possible = np.ones((6, 2), dtype=np.bool_)
    possible[1, 1] = False
    size = np.array([10, 10, 10, 10, 30, 10])
    problem = problem_of(units, costs, size, possible, memory_bytes=[None, 25])
    tasks = Tasks.from_units(units, costs)
    program = Linear()
    x = add_placement(program, problem, whole=False)
    largest = program.variables(1, cost=1.0, in_ms=True)
    program.require((x.T, tasks.ms.T), (np.repeat(largest, 2), -1.0), rows=2)
    assert load_ms(problem, costs) == pytest.approx(minimize(program).bound)


def fork_and_join() -> tuple[Problem, CostTable]:
    """0 feeds 1 and 2, which feed 3; the second device does not support 2; 1 ms between them."""
    units = grouped(made_graph(4, [(0, [1, 2]), (1, [3]), (2, [3])]), np.arange(4))
    costs = cost_table(units.graph, [[4, 2], [9, 3], [5, 1], [2, 6]], [1, 1, 1])
    supported = np.array([[True, True], [True, True], [True, False], [True, True]])
    return problem_of(units, costs, supported=supported), costs


def test_earliest_finish_by_hand() -> None:
    problem, costs = fork_and_join()
    tasks = Tasks.from_operators(problem.units, costs)
    # 0: on device1; 1: there too; 2: on device0 after a transfer; 3: on device0 after 2
    assert earliest_on_devices_ms(problem, tasks).min(axis=1).tolist() == [2.0, 5.0, 8.0, 10.0]
    # a call pays half of the transfer on either side, which adds up to the same
    called = earliest_on_devices_ms(problem, call_tasks(problem, costs))
    assert called.min(axis=1).tolist() == [2.0, 5.0, 8.0, 10.0]


def test_remaining_time_is_the_longest_path_of_minimum_times() -> None:
    problem, costs = fork_and_join()
    tasks = Tasks.from_operators(problem.units, costs)
    assert remaining_ms(problem, tasks).tolist() == [5.0 + 2.0, 2.0, 2.0, 0.0]


def test_soft_limits_and_none_are_no_limits_of_a_bound() -> None:
    problem, costs = row_of_two(memory_bytes=[None, 0])
    hard = Semantics("list", contention="none")
    for axes in ({"memory": "off"}, {"memory_penalty_ms_per_gb": 1.0}, {"memory": "outputs"}):
        soft = replace(hard, **axes)
        assert lower_bound(problem, costs, soft).bound_ms == pytest.approx(4.0)
    assert lower_bound(problem, costs, hard).bound_ms == pytest.approx(6.0)


def test_a_unit_may_start_before_all_its_inputs_are_there() -> None:
    units = grouped(made_graph(3, [(0, [2]), (1, [2])]), np.array([0, 1, 1]))
    costs = cost_table(units.graph, [[10, 10], [10, 10], [1, 1]], [0, 0])
    tasks = Tasks.from_operators(units, costs)
    assert path_ms(problem_of(units, costs), tasks) == 11.0


def test_the_price_of_soft_limits_counts_in_the_optimum() -> None:
    units = grouped(made_graph(3, []), np.arange(3))
    costs = cost_table(units.graph, [[9, 1]] * 3, [])
    problem = problem_of(units, costs, np.full(3, 10**9), memory_bytes=[None, 10])
    soft = Semantics(memory_penalty_ms_per_gb=2000.0)
    backend = SimulatedBackend(problem, costs, soft)
    found = optimum_or_bound(problem, costs, soft, [], lambda one: backend.evaluate(one).latency_ms)
    assert found == (None, pytest.approx(3.0))


def never_called(assignment: IntArray) -> float:
    raise AssertionError(f"{assignment} was evaluated")


def test_solvers_placement_at_the_bound_is_the_optimum() -> None:
    seen = []

    def evaluate(assignment: IntArray) -> float:
        seen.append(assignment.tolist())
        return 4.0

    found = optimum_or_bound(*row_of_two(), SERIAL, [], evaluate)
    assert found == (4.0, pytest.approx(4.0))
    assert seen in ([[1, 0]], [[1, 1]])


def test_the_bound_does_not_exceed_a_known_latency() -> None:
    found = optimum_or_bound(*row_of_two(), CALLS, [3.99999], never_called)
    assert found == (3.99999, 3.99999)


def test_placement_above_the_solvers_cost_proves_nothing() -> None:
    assert optimum_or_bound(*row_of_two(), SERIAL, [], lambda _: 4.1)[0] is None
    assert optimum_or_bound(*row_of_two(), SERIAL, [4.0], lambda _: 4.1)[0] == 4.0


def test_an_infeasible_placement_is_no_optimum() -> None:
    assert optimum_or_bound(*row_of_two(), SERIAL, [], lambda _: np.inf)[0] is None


@pytest.mark.parametrize(
    ("known_ms", "optimum_ms"),
    [([], None), ([6.0, 4.5], None), ([6.0, 4.0 * 1.00005], 4.0 * 1.00005), ([4.0 * 1.0002], None)],
)
def test_known_latency_is_the_optimum_if_it_reaches_a_bound(
    known_ms: list[float], optimum_ms: float | None
) -> None:
    found = optimum_or_bound(*row_of_two(), CALLS, known_ms, never_called)
    assert found == (optimum_ms, pytest.approx(4.0))


def test_relaxed_placement_is_optimal_if_it_reaches_the_bound() -> None:
    problem, costs = row_of_two()
    for latency_ms, optimum_ms in ((4.0, 4.0), (4.1, None)):
        found = optimum_or_bound(problem, costs, LIST, [], lambda _, ms=latency_ms: ms)
        assert found == (optimum_ms, pytest.approx(4.0))


def test_where_nothing_is_feasible_nothing_is_optimal() -> None:
    tight = row_of_two(memory_bytes=[0, 0])
    assert optimum_or_bound(*tight, SERIAL, [], never_called) == (None, np.inf)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("schedule", ["serial", "event", "list", "load", "calls"])
def test_costs_that_are_all_zero_are_an_optimum_of_zero(schedule: str) -> None:
    drawn = random_backend(1)
    times = ("operator_ms", "transfer_size", "link_ms")
    free = {name: 0.0 * getattr(drawn.costs, name) for name in times}
    backend = SimulatedBackend(drawn.problem, replace(drawn.costs, **free), Semantics(schedule))
    best_ms = find_least_ms(backend)
    found = optimum_or_bound(
        backend.problem,
        backend.costs,
        backend.semantics,
        [],
        lambda one: backend.evaluate(one).latency_ms,
    )
    assert best_ms == found[1] == 0.0
