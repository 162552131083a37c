"""Bounds, proofs and answers of every solver against all placements, under every schedule."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from by_hand import feasible_placements
from pipelines import least_load_ms
from pooled import draw_pooled

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray, UserError
from placement_gym.solvers import Solution, lower_bound, optimum_or_bound, serial_program
from placement_gym.solvers.pipelines import exact_pipeline
from placement_gym.solvers.programs import max_load, solve_path_load
from placement_gym.solvers.search import search

EXACT, GAP = 1.0 + 1e-6, 1.0 + 2e-4
"""Of a solver's numbers, and of the smallest gap that counts as a proof."""


@pytest.mark.parametrize("seed", range(20))
def test_no_bound_is_too_high_and_no_proof_is_false(seed: int) -> None:
    check_bounds_and_proofs(draw_pooled(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 2_000))
def test_bounds_and_proofs_are_right_on_a_thousand_problems(seed: int) -> None:
    check_bounds_and_proofs(draw_pooled(seed))


def check_bounds_and_proofs(backend: SimulatedBackend) -> None:
    """Whatever is said of a problem is true of all its placements."""
    problem, costs, semantics = backend.problem, backend.costs, backend.semantics
    every, latency_ms = feasible_placements(backend)
    latencies = dict(zip(map(bytes, every.astype(np.uint8)), latency_ms.tolist(), strict=True))
    least_ms = min(latency_ms, default=np.inf)

    def evaluate(assignment: IntArray) -> float:
        return latencies.get(bytes(assignment.astype(np.uint8)), np.inf)

    # what bounds latencies of the schedule, and what claims to solve it
    assert lower_bound(problem, costs, semantics).bound_ms <= least_ms * EXACT
    hard = semantics.memory in ("static", "lifetime") and not semantics.memory_penalty_ms_per_gb
    solved: Solution | None = None
    if hard and semantics.schedule in ("event", "list") and least_ms < np.inf:
        assert solve_path_load(problem, costs).bound_ms <= least_ms * EXACT
    if hard and semantics.schedule == "serial":
        solved = serial_program(problem, costs)
    if hard and semantics.schedule == "load":
        solved = max_load(problem, costs, None)
        check_pipeline(backend, least_ms)
    if solved is not None:
        assert solved.bound_ms <= least_ms * EXACT
        assert solved.assignment is None or evaluate(solved.assignment) >= least_ms
        if solved.proven or (semantics.schedule == "serial" and least_ms < np.inf):
            assert solved.assignment is not None
            assert evaluate(solved.assignment) <= least_ms * GAP

    # what is called the optimum, by whatever is known
    for known_ms in ([], latency_ms[:1].tolist(), [*latency_ms[:1], *latency_ms[-1:]], [least_ms]):
        optimum_ms, bound_ms = optimum_or_bound(problem, costs, semantics, known_ms, evaluate)
        assert bound_ms <= least_ms * EXACT
        assert optimum_ms is None or least_ms <= optimum_ms <= least_ms * GAP

    found = search(problem, costs, semantics, evaluations=2)
    assert found.latency_ms == pytest.approx(evaluate(found.assignment), rel=1e-12)


def check_pipeline(backend: SimulatedBackend, least_ms: float) -> None:
    """The exact pipeline is the best contiguous split, or refused."""
    with suppress(UserError):
        split = exact_pipeline(backend.problem, backend.costs)
        assert backend.problem.infeasibility(split) == ""
        load_ms = backend.evaluate(split).latency_ms
        assert load_ms >= least_ms
        if not backend.simulator.counts_submodels:
            assert load_ms == pytest.approx(least_load_ms(backend))
