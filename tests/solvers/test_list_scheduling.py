# White-box tests of solvers
"""List scheduling: worked examples, limits, and what every one of them keeps to."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest
from by_hand import Made, cost_table, grouped, made_graph, problem_of

import agents
from placement_gym.backends.simulated import build_simulated_problem
from placement_gym.base import FloatArray, IntArray
from placement_gym.envs import play_episode
from placement_gym.graph import group
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import PRESETS, CostTable, Semantics
from placement_gym.schedules import Simulator
from placement_gym.solvers import Tasks, critical_path, heft, m_etf
from placement_gym.solvers.list_policy import earliest_finish
from placement_gym.solvers.list_scheduling import PartialSchedule, merge

Solver = Callable[[Problem, CostTable], IntArray]


def greedy(
    problem: Problem, costs: CostTable, semantics: Semantics = PRESETS["serial"]
) -> IntArray:
    return earliest_finish(problem, Simulator(problem.units, costs, semantics))


SOLVERS = [heft, critical_path, m_etf, greedy]
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


@pytest.mark.parametrize(
    ("model", "expected"), [("resnet", 1.0279), ("bert-8", 1.0444), ("inception", 1.1936)]
)
def test_greedy_gains_on_hsdags_models_what_it_is_known_to(model: str, expected: float) -> None:
    env = gym.make("DevicePlacementSim-v0", model=model, devices="hsdag-paper")
    info = play_episode(env, agents.make("greedy", env))
    assert info["speedup_vs_best_single"] == pytest.approx(expected, abs=5e-5)


def test_greedy_counts_a_transfer_to_a_device_once() -> None:
    # Both readers are slower here by less than a transfer: the first stays, the second would too.
    made: Made = [(0, [1, 2])]
    problem, costs = small(made, [[1, 9], [9, 1], [3, 2.5]], [1.0])
    assert greedy(problem, costs).tolist() == [0, 1, 1]
    problem, costs = small(made, [[1, 9], [1, 9], [3, 2.5]], [1.0])
    assert greedy(problem, costs).tolist() == [0, 0, 0]


def test_greedy_keeps_devices_busy_where_they_work_in_parallel() -> None:
    problem, costs = small([], [[4, 4], [3, 3], [2, 2], [1, 1]], [])
    assert greedy(problem, costs).tolist() == [0, 0, 0, 0]
    for schedule in ("list", "event", "giph"):
        chosen = greedy(problem, costs, PRESETS[schedule])
        assert chosen.tolist() == [0, 1, 1, 0]


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
