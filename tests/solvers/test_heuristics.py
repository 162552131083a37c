# White-box tests of solvers
"""The list of simple placements: what it has, and what it leaves out."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import cost_table, grouped, made_graph, problem_of
from fakes import CPU_GPU, diamond_problem
from graphs import chain, problem_on

from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import (
    heuristics,
    propose_prefixes,
    propose_simple,
    propose_single_devices,
    propose_windows,
)
from placement_gym.solvers.heuristics import SIMPLE


def small(shares: tuple[float | None, ...] = (None, None)) -> tuple[Problem, CostTable]:
    """Four operators in a row on two devices, of which some hold a share of the weights only."""
    graph = made_graph(4, [(0, [1]), (1, [2]), (2, [3])])
    costs = cost_table(graph, np.array([[2.0, 1.0]] * 4), [1.0, 1.0, 1.0])
    return problem_of(grouped(graph), costs, np.full(4, 10), weight_share=shares), costs


def test_every_simple_placement_is_a_device_for_each_unit() -> None:
    problem, costs = small()
    named = dict(propose_simple(problem, costs, *SIMPLE))
    assert list(named) == list(SIMPLE)
    for placement in named.values():
        problem.check(placement)


def test_a_pipeline_that_fits_no_memory_is_left_out() -> None:
    problem, costs = small((0.2, 0.2))
    names = [name for name, _ in propose_simple(problem, costs, "dp", "dpl", "fill-in-order")]
    assert names == ["fill-in-order"]


def test_what_is_slow_for_many_units_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, costs = small()
    monkeypatch.setitem(heuristics.MOST_UNITS, "heft", 3)
    assert [name for name, _ in propose_simple(problem, costs, "heft", "dpl")] == ["dpl"]


def test_single_devices_have_the_names_that_tables_print() -> None:
    named = dict(propose_single_devices(diamond_problem()))
    assert list(named) == ["CPU alone", "GPU alone"]
    assert all(np.ptp(placement) == 0 for placement in named.values())


def test_inner_windows_are_the_windows_that_are_no_prefix() -> None:
    problem = problem_on(chain(6), CPU_GPU)
    found = {
        name: {tuple(one) for one in placements.tolist()}
        for name, placements in (
            ("prefix", propose_prefixes(problem)),
            ("window", propose_windows(problem)),
            ("inner", propose_windows(problem, inner=True)),
        )
    }
    assert found["window"] == found["prefix"] | found["inner"]
    assert len(propose_windows(problem)) == len(propose_prefixes(problem)) + len(
        propose_windows(problem, inner=True)
    )
