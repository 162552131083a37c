# White-box tests of solvers
"""Linear programs give the same answers whatever the scale of their times."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from placement_gym.base import FloatArray
from placement_gym.solvers import Linear, Solver, minimize
from placement_gym.solvers.linear import (
    MAX_OPTIMUM,
    MIN_OPTIMUM,
    QuietHighs,
    choose_unit,
    is_accurate,
)

MS = np.array([[3.0, 1.0], [2.0, 5.0], [4.0, 2.0]])


def balanced(scale: float, whole: bool, about_ms: float = 0.0, ms: FloatArray = MS) -> Linear:
    """The largest load of three units on two devices, of which the second holds only one."""
    program = Linear(about_ms)
    x = program.variables(3, 2, upper=1.0, whole=whole)
    total = program.variables(1, cost=1.0, in_ms=True)
    program.require((x, 1.0), rows=3, low=1.0, high=1.0)
    program.require((x[:, 1], 1.0), rows=1, high=1.0)
    program.require((x.T, scale * ms.T), (np.repeat(total, 2), -1.0), rows=2)
    return program


@pytest.mark.parametrize("about_ms", [0.0, 1.0])
@pytest.mark.parametrize("exponent", [-60, -12, 0, 12, 60])
def test_times_scale_the_optimum(exponent: int, about_ms: float) -> None:
    scale = 10.0**exponent
    found = minimize(balanced(scale, True, about_ms * scale))
    assert found.proven
    assert found.values[[1, 3, 5]] == pytest.approx([0.0, 0.0, 1.0])
    figures = np.array([found.values[-1], found.objective, found.bound]) / scale
    assert figures == pytest.approx(5.0)


@pytest.mark.parametrize("exponent", [-12, 0, 12])
def test_prices_are_per_unit_of_the_right_side_at_any_scale(exponent: int) -> None:
    scale = 10.0**exponent
    found, ordinary = (minimize(balanced(s, whole=False)) for s in (scale, 1.0))
    # a unit of memory is worth ms; a ms of a load is worth a share of a ms
    assert found.prices[:4] / scale == pytest.approx(ordinary.prices[:4])
    assert found.prices[4:] == pytest.approx(ordinary.prices[4:])
    assert found.bound / scale == pytest.approx(ordinary.bound)


@pytest.mark.parametrize("exponent", [-12, 0, 12])
def test_rows_that_are_added_are_in_the_same_unit(exponent: int) -> None:
    scale = 10.0**exponent
    program = balanced(scale, whole=False)
    solver = Solver(program, whole=False)
    before = solver.minimize(10.0).bound
    program.require((np.array([6]), 1.0), rows=1, low=7.0 * scale, high=np.inf)
    assert before < solver.minimize(10.0).bound == pytest.approx(7.0 * scale, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("exponent", [-12, 0, 12])
def test_a_time_that_the_solver_would_refuse_is_lowered(exponent: int) -> None:
    scale, ms = 10.0**exponent, MS.copy()
    ms[2, 0] = 1e30
    found = minimize(balanced(scale, True, scale, ms))
    assert found.bound / scale == pytest.approx(5.0)
    assert found.values[5] == pytest.approx(1.0)


def test_costs_far_above_the_optimum_do_not_hide_it() -> None:
    program = Linear()
    x = program.variables(2, 2, cost=[[1e12, 1e-9], [3e-9, 1e12]], upper=1.0, whole=True)
    program.require((x, 1.0), rows=2, low=1.0, high=1.0)
    found = minimize(program)
    assert found.proven
    assert found.bound == pytest.approx(4e-9, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("about_ms", [0.0, np.inf, 1e-300, 1e-12, 0.9, 1.0, 1e5, 1e6, 1e12, 1e300])
def test_unit_is_a_power_of_two_with_an_accurate_optimum(about_ms: float) -> None:
    unit_ms = choose_unit(about_ms)
    if about_ms in (0.0, np.inf):  # there is no estimate
        assert unit_ms == 1.0
        return
    assert log2(unit_ms) == int(log2(unit_ms))
    assert is_accurate(about_ms, unit_ms)
    assert (unit_ms == 1.0) == (MIN_OPTIMUM <= about_ms < MAX_OPTIMUM)


def test_the_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    QuietHighs()
    assert capfd.readouterr().out == ""


def test_limits_of_rows_change_in_the_solver_alone() -> None:
    program = Linear(about_ms=3.0)
    x = program.variables(2, cost=[1.0, 2.0])
    program.require((x[None], 1.0), rows=1, low=3.0, high=np.inf)
    program.require((x[:1, None], 1.0), rows=1, high=10.0)
    solver = Solver(program, whole=False)
    solver.limit(np.array([1]), np.array([1.0]))
    assert solver.minimize(1.0).bound == pytest.approx(1.0 + 2 * 2.0)
    assert Solver(program, whole=False).minimize(1.0).bound == pytest.approx(3.0)
