# White-box tests of solvers
"""Filling devices in order: runs, limits, shares, and what devices do not run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from by_hand import chain, cost_table, grouped, problem_of

from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import fill_in_order, pipeline_parallel
from placement_gym.solvers.fill import SHARES


def make_chain(
    held: list[int], limits: list[int | None], ms: list[float], host: list[bool]
) -> tuple[Problem, CostTable]:
    """A chain of units; devices with a limit, a time for every unit, hosts or accelerators."""
    n = len(held)
    costs = cost_table(chain(n), [ms] * n, [1.0] * (n - 1), host=host)
    return problem_of(grouped(chain(n)), costs, np.array(held), memory_bytes=limits), costs


CPU_AND_TWO = {"ms": [9.0, 2.0, 1.0], "host": [True, False, False]}


@pytest.mark.parametrize(
    ("shares", "held", "limits", "expected"),
    [
        ("full", [10] * 8, [None, 35, 20], [2, 2, 1, 1, 1, 0, 0, 0]),
        ("full", [10, 30, 5, 5], [None, 30, 20], [2, 1, 0, 0]),
        ("full", [10] * 4, [None] * 3, [2, 2, 2, 2]),
        ("full", [10] * 6, [None, 40, 80], [2] * 6),
        ("equal", [10, 30, 20, 20], [None] * 3, [2, 2, 1, 1]),
        ("limits", [10, 30, 20, 20], [None] * 3, [2, 2, 1, 1]),
        ("equal", [10] * 6, [None, 60, 20], [2, 2, 1, 1, 1, 1]),
        ("limits", [10] * 6, [None, 40, 80], [2, 2, 2, 2, 1, 1]),
    ],
    ids=[
        "the fastest accelerator first, the cpu last",
        "a device is left at the first unit that it cannot hold",
        "without limits the first device takes everything",
        "in full",
        "unlimited accelerators share equally",
        "unlimited accelerators share by limits",
        "an equal share is never more than a device holds",
        "in proportion to limits",
    ],
)
def test_devices_are_filled_in_order(
    shares: str, held: list[int], limits: list[int | None], expected: list[int]
) -> None:
    problem, costs = make_chain(held, limits, **CPU_AND_TWO)
    assert fill_in_order(problem, costs, shares).tolist() == expected
    assert shares != "full" or fill_in_order(problem, costs).tolist() == expected


@pytest.mark.parametrize("shares", SHARES)
def test_a_fast_cpu_still_comes_last(shares: str) -> None:
    problem, costs = make_chain([10] * 4, [None, 20, 10], [0.1, 2.0, 1.0], [True, False, False])
    assert fill_in_order(problem, costs, shares).tolist() == [2, 1, 1, 0]


def test_among_equal_kinds_all_devices_share() -> None:
    problem, costs = make_chain([10] * 4, [None, None], [2.0, 1.0], [True, True])
    assert fill_in_order(problem, costs, "equal").tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("shares", SHARES)
def test_limits_hold_while_the_last_device_has_none(shares: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        held = rng.integers(0, 20, 15).tolist()
        limits = [None, int(rng.integers(0, 90)), int(rng.integers(0, 90))]
        problem, costs = make_chain(held, limits, **CPU_AND_TWO)
        placement = fill_in_order(problem, costs, shares)
        assert problem.infeasibility(placement) == ""
        assert np.count_nonzero(np.diff(placement)) <= 2


def test_what_a_device_does_not_run_takes_none_of_its_room() -> None:
    problem, costs = make_chain([10] * 4, [None, 20], [9.0, 1.0], [True, False])
    problem.supported[1, 1] = False
    assert fill_in_order(problem, costs).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([None, None], [1] * 10),
        ([None, 60], [1, 1, 1, 1, 1, 0, 0, 1, 1, 1]),
        ([None, 30], [1, 0, 0, 0, 0, 0, 0, 1, 1, 1]),
        ([None, 20], [1, 0, 0, 0, 0, 0, 0, 1, 1, 0]),
        ([None, 30, 40], [2, 1, 1, 1, 1, 0, 0, 2, 2, 2]),
    ],
    ids=[
        "without limits nothing leaves",
        "the last experts leave with all of their units",
        "all experts leave, and the shared one stays",
        "the rest only leaves once all experts have",
        "experts go to the next device with room",
    ],
)
def test_experts_leave_a_full_device_before_the_rest(
    limits: list[int | None], expected: list[int]
) -> None:
    parts = [f"layer0/expert{number}/{part}" for number in range(3) for part in ("up", "down")]
    names = ["embed", *parts, "layer0/shared_expert", "layer0/sum", "head"]
    held = [10, 5, 10, 5, 10, 5, 10, 10, 0, 10]
    devices = {"ms": [9.0, 2.0, 1.0][: len(limits)], "host": [True, False, False][: len(limits)]}
    problem, costs = make_chain(held, limits, **devices)
    quotient = replace(problem.units.quotient, names=tuple(names))
    problem = replace(problem, units=replace(problem.units, quotient=quotient))
    assert fill_in_order(problem, costs, "fit").tolist() == expected


def test_an_unknown_share_is_refused() -> None:
    problem, costs = make_chain([10] * 2, [None, None], [9.0, 1.0], [True, False])
    with pytest.raises(ValueError, match="equal"):
        fill_in_order(problem, costs, "equall")


@pytest.mark.parametrize(
    ("held", "limits", "expected"),
    [
        pytest.param([10] * 4, [None, 30], [0] * 4, id="all fits"),
        pytest.param([10] * 4, [48, 30], [0] * 4, id="all fits, with a margin"),
        pytest.param([10] * 6, [36, 48], [0, 0, 0, 1, 1, 1], id="a margin on each"),
        pytest.param([10] * 6, [30, None], [0, 0, 1, 1, 1, 1], id="a margin on the first"),
        pytest.param([10] * 6, [20, 40], [0, 0, 1, 1, 1, 1], id="two small devices"),
        pytest.param([10] * 6, [20, 10, 30], [0, 0, 1, 2, 2, 2], id="three small devices"),
    ],
)
def test_pipeline_parallel_fills_devices_but_for_a_margin(
    held: list[int], limits: list[int | None], expected: list[int]
) -> None:
    n_devices = len(limits)
    problem, _ = make_chain(held, limits, [1.0] * n_devices, [False] * n_devices)
    assert pipeline_parallel(problem, np.array(held)).tolist() == expected
