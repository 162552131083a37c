"""No false proof and no false bound, whatever the scale of the costs: against brute force."""

from __future__ import annotations

import pytest
from scales import KINDS, SOLVERS, Case

ROUNDING = 1.0 + 1e-6
OPTIMUM = 1.0 + 1e-4
PROVES = ("serial", "min-cut", "path-load", "max-load", "beam")
QUICK = [
    *((solver, "entries", 27) for solver in SOLVERS),
    ("serial", "zeros", 27),
    ("pipeline", "entries", 147),
    ("pipeline", "zeros", 494),
    ("beam", "zeros", 309),
    ("beam", "operators", 406),
]


def check(case: Case) -> None:
    """A bound lies below all placements, and only an optimum that reaches it is proven."""
    found, least_ms = case.found, case.least_ms
    assert 0.0 <= found.bound_ms <= least_ms * ROUNDING
    if found.proven:
        assert case.latency_ms <= found.bound_ms * OPTIMUM


@pytest.mark.parametrize("exponent", [-12, 12])
@pytest.mark.parametrize("solver", PROVES)
def test_tiny_and_huge_costs_are_proven_as_ordinary_ones(solver: str, exponent: int) -> None:
    case = Case(solver, 7, "uniform", exponent)
    check(case)
    assert case.found.proven
    ordinary_ms = Case(solver, 7, "uniform", 0).found.bound_ms
    assert case.found.bound_ms / 10.0**exponent == pytest.approx(ordinary_ms, rel=1e-5)


@pytest.mark.parametrize("solver", PROVES)
def test_where_nothing_takes_time_the_latency_is_zero_and_proven(solver: str) -> None:
    case = Case(solver, 7, "nothing")
    assert case.found.proven
    assert case.found.bound_ms == case.latency_ms == 0.0


@pytest.mark.parametrize(("solver", "kind", "seed"), QUICK)
def test_costs_of_many_scales_prove_nothing_false(solver: str, kind: str, seed: int) -> None:
    check(Case(solver, seed, kind))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_three_hundred_programs_of_any_scale_prove_nothing_false(seed: int) -> None:
    for solver in SOLVERS:
        check(Case(solver, seed, KINDS[seed % len(KINDS)]))
