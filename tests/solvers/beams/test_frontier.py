# White-box tests of solvers.beams
"""Which tasks take almost no time depends on the problem's own times, whatever their scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from by_hand import cost_table, grouped, made_graph, problem_of
from overlapping import LIST, diamonds

from placement_gym.problem import Problem
from placement_gym.solvers import Tasks
from placement_gym.solvers.beams import Beam
from placement_gym.solvers.beams.frontier import MANY_TASKS, find_tiny

CHAIN = [(0, [1]), (1, [2])]


def chain_of_tasks(operator_ms: list[list[float]]) -> tuple[Problem, Tasks]:
    """Three operators, one after another, on two devices."""
    graph = made_graph(3, CHAIN)
    costs = cost_table(graph, operator_ms, [1.0, 1.0])
    units = grouped(graph, np.arange(3))
    return problem_of(units, costs), Tasks.from_operators(units, costs)


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
def test_tiny_is_relative_to_the_times_of_all_tasks(factor: float) -> None:
    problem, tasks = chain_of_tasks([[1e-6, 1e-6], [1.0, 2.0], [1e-3, 1e-6]])
    first, last = find_tiny(problem, replace(tasks, ms=factor * tasks.ms))
    assert first.tolist() == [True, False, False]
    assert last.tolist() == [False, False, False]


def test_a_slow_device_makes_no_task_tiny() -> None:
    problem, tasks = chain_of_tasks([[1.0, 1.0], [1.0, 1e7], [1.0, 1.0]])
    assert not np.any(find_tiny(problem, tasks))


def test_a_device_that_cannot_run_a_task_does_not_count() -> None:
    problem, tasks = chain_of_tasks([[1e-6, 1e9], [1.0, 1.0], [1.0, 1.0]])
    supported = np.array([[True, False], [True, True], [True, True]])
    first, _ = find_tiny(replace(problem, supported=supported), tasks)
    assert first.tolist() == [True, False, False]


def test_many_equal_tasks_are_not_tiny() -> None:
    problem, tasks = chain_of_tasks([[1.0, 1.0]] * 3)
    n = 20 * MANY_TASKS
    many = replace(tasks, unit=np.zeros(n, dtype=np.int64), ms=np.ones((n, 2)))
    assert not np.any(find_tiny(problem, many))


@pytest.mark.parametrize("seed", range(4))
def test_the_latency_scales_with_all_times(seed: int) -> None:
    backend = diamonds(seed)
    found = []
    for factor in (1e-9, 1.0, 1e9):
        costs = backend.costs.scaled(np.full(len(backend.costs.devices), factor))
        costs = replace(costs, link_ms_per_size=factor * costs.link_ms_per_size)
        beam = Beam(backend.problem, costs, LIST, np.inf)
        found.append(beam.search(10_000, np.inf, np.inf).bound_ms / factor)
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[2] == pytest.approx(found[1], rel=1e-9)
