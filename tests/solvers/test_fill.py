"""Filling devices in order: runs, limits, shares, and what devices do not run."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import cost_table, made_graph, problem_of

from placement_gym import CostTable
from placement_gym.graph.units import group
from placement_gym.problem.problem import Problem
from placement_gym.solvers.fill import SHARES, fill_in_order, pipeline_parallel


def chain(
    held: list[int], limits: list[int | None], ms: list[float], host: list[bool]
) -> tuple[Problem, CostTable]:
    """A chain of units; devices with a limit, a time for every unit, hosts or accelerators."""
    n = len(held)
    graph = made_graph(n, [(unit, [unit + 1]) for unit in range(n - 1)])
    costs = cost_table(graph, [ms] * n, [1.0] * (n - 1), host=host)
    units = group(graph, "op")
    return problem_of(units, costs, np.array(held), memory_bytes=limits), costs


CPU_AND_TWO = {"ms": [9.0, 2.0, 1.0], "host": [True, False, False]}


def test_fastest_accelerator_is_filled_first_and_the_cpu_last() -> None:
    problem, costs = chain([10] * 8, [None, 35, 20], **CPU_AND_TWO)
    assert fill_in_order(problem, costs).tolist() == [2, 2, 1, 1, 1, 0, 0, 0]


def test_device_is_left_at_the_first_unit_it_cannot_hold() -> None:
    problem, costs = chain([10, 30, 5, 5], [None, 30, 20], **CPU_AND_TWO)
    assert fill_in_order(problem, costs).tolist() == [2, 1, 0, 0]


@pytest.mark.parametrize("shares", SHARES)
def test_a_fast_cpu_still_comes_last(shares: str) -> None:
    problem, costs = chain([10] * 4, [None, 20, 10], [0.1, 2.0, 1.0], [True, False, False])
    assert fill_in_order(problem, costs, shares).tolist() == [2, 1, 1, 0]


def test_without_limits_the_first_device_takes_everything() -> None:
    problem, costs = chain([10] * 4, [None] * 3, **CPU_AND_TWO)
    assert fill_in_order(problem, costs).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("shares", ["equal", "limits"])
def test_unlimited_accelerators_share_and_the_cpu_gets_nothing(shares: str) -> None:
    problem, costs = chain([10, 30, 20, 20], [None] * 3, **CPU_AND_TWO)
    assert fill_in_order(problem, costs, shares).tolist() == [2, 2, 1, 1]


def test_an_equal_share_is_never_more_than_a_device_holds() -> None:
    problem, costs = chain([10] * 6, [None, 60, 20], **CPU_AND_TWO)
    assert fill_in_order(problem, costs, "equal").tolist() == [2, 2, 1, 1, 1, 1]


def test_shares_in_proportion_to_limits() -> None:
    problem, costs = chain([10] * 6, [None, 40, 80], **CPU_AND_TWO)
    assert fill_in_order(problem, costs, "limits").tolist() == [2, 2, 2, 2, 1, 1]
    assert fill_in_order(problem, costs, "full").tolist() == [2] * 6


def test_among_equal_kinds_all_devices_share() -> None:
    problem, costs = chain([10] * 4, [None, None], [2.0, 1.0], [True, True])
    assert fill_in_order(problem, costs, "equal").tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("shares", SHARES)
def test_limits_hold_while_the_last_device_has_none(shares: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        held = rng.integers(0, 20, 15).tolist()
        limits = [None, int(rng.integers(0, 90)), int(rng.integers(0, 90))]
        problem, costs = chain(held, limits, **CPU_AND_TWO)
        placement = fill_in_order(problem, costs, shares)
        assert problem.infeasibility(placement) == ""
        assert np.count_nonzero(np.diff(placement)) <= 2


def test_what_a_device_does_not_run_takes_none_of_its_room() -> None:
    problem, costs = chain([10] * 4, [None, 20], [9.0, 1.0], [True, False])
    problem.supported[1, 1] = False
    assert fill_in_order(problem, costs).tolist() == [1, 0, 1, 0]


def test_an_unknown_share_is_refused() -> None:
    problem, costs = chain([10] * 2, [None, None], [9.0, 1.0], [True, False])
    with pytest.raises(ValueError, match="equal"):
        fill_in_order(problem, costs, "equall")


def split_of(held: list[int], limits: list[int | None]) -> list[int]:
    n_devices = len(limits)
    problem, _ = chain(held, limits, [1.0] * n_devices, [False] * n_devices)
    return pipeline_parallel(problem, np.array(held)).tolist()


def test_pipeline_parallel_fills_the_first_device_that_fits() -> None:
    assert split_of([10] * 4, [None, 30]) == [0] * 4
    assert split_of([10] * 4, [48, 30]) == [0] * 4


def test_pipeline_parallel_leaves_a_margin_on_each_device() -> None:
    assert split_of([10] * 6, [36, 48]) == [0, 0, 0, 1, 1, 1]
    assert split_of([10] * 6, [30, None]) == [0, 0, 1, 1, 1, 1]


def test_pipeline_parallel_shares_memory_of_small_devices() -> None:
    assert split_of([10] * 6, [20, 40]) == [0, 0, 1, 1, 1, 1]
    assert split_of([10] * 6, [20, 10, 30]) == [0, 0, 1, 2, 2, 2]
