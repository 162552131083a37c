"""An optimum is named only where a placement is proven to be optimal."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import row_of_two

from placement_gym.base.arrays import IntArray
from placement_gym.problem.costs.semantics import Semantics
from placement_gym.solvers.bounds import optimum_or_bound

SERIAL, CALLS = Semantics(), Semantics("calls")
LIST = Semantics("list", contention="none")


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
