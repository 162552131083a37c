"""Large-neighbourhood search: against brute force, its start, limits and seeds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from by_hand import random_backend
from levels import follow, random_problem, scorer

from placement_gym.arrays import BoolArray, FloatArray, IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.models import BY_NUMBER, SERIAL, Operators, estimate_ms
from placement_gym.solvers.neighbourhood import (
    LARGER,
    SMALLER,
    BlockSampler,
    Settings,
    propose_starts,
    search,
)
from placement_gym.solvers.rebuild import make_program, rebuild_greedily
from placement_gym.solvers.solution import Solution

QUICK = Settings(time_limit_s=60.0, max_nodes=5, patience=2)
WITHOUT_PROGRAM = Settings(programs=0)
Evaluate = Callable[[IntArray], FloatArray]


def neighbourhood(
    backend: SimulatedBackend, evaluate: Evaluate, evaluations: int, seed: int, settings: Settings
) -> IntArray:
    proposals = search(backend.problem, backend.costs, np.random.default_rng(seed), settings)
    return follow(proposals, evaluate, evaluations)


@pytest.mark.parametrize("seed", range(10))
def test_it_finds_the_optimum_of_small_problems(seed: int) -> None:
    backend = random_backend(seed)
    problem, evaluate = backend.problem, scorer(backend)
    every = np.array(list(product(range(len(problem.devices)), repeat=problem.n_units)))
    found = neighbourhood(backend, evaluate, 30, seed, QUICK)
    assert evaluate(found[None])[0] == pytest.approx(evaluate(every).min())


@pytest.mark.parametrize("schedule", ["serial", "list"])
@pytest.mark.parametrize("seed", range(3))
def test_limits_hold_and_its_starts_are_not_better(seed: int, schedule: str) -> None:
    backend = random_problem(seed, 60, schedule=schedule)
    problem, evaluate = backend.problem, scorer(backend)
    found = neighbourhood(backend, evaluate, 40, seed, WITHOUT_PROGRAM)
    starts = propose_starts(problem, backend.costs, np.random.default_rng(seed))
    assert problem.infeasibility(found) == ""
    assert evaluate(found[None])[0] < evaluate(starts).min()


def test_the_same_seed_finds_the_same_and_the_budget_holds() -> None:
    backend = random_problem(5, 24, schedule="list")
    tried: list[list[IntArray]] = [[], [], []]
    for seen, seed in zip(tried, (0, 0, 1), strict=True):
        neighbourhood(backend, scorer(backend, seen), 12, seed, QUICK)
    assert [len(seen) for seen in tried] == [12, 12, 12]
    assert (np.stack(tried[0]) == np.stack(tried[1])).all()
    assert (np.stack(tried[0]) != np.stack(tried[2])).any()


@pytest.mark.parametrize("model", [SERIAL, BY_NUMBER])
@pytest.mark.parametrize("seed", range(4))
def test_a_program_rebuilds_a_block_at_best_and_nothing_else(seed: int, model: int) -> None:
    backend = random_problem(seed, 14, 2)
    problem = backend.problem
    operators = Operators.of(problem, backend.costs)
    start = problem.single(0)
    free = np.random.default_rng(seed).permutation(14) < 6
    rebuild = make_program(problem, backend.costs, operators, model, 60.0, None)
    now_ms = estimate_ms(operators, model, start)
    solution = rebuild(start, free, now_ms)
    found = start if solution.assignment is None else solution.assignment
    every = np.tile(start, (64, 1))
    every[:, free] = np.array(list(product(range(2), repeat=6)))
    fits = [one for one in every if not problem.infeasibility(one)]
    least_ms = min(estimate_ms(operators, model, one) for one in fits)
    assert (found[~free] == start[~free]).all()
    assert problem.infeasibility(found) == ""
    assert solution.bound_ms <= least_ms * (1 + 1e-6)
    if model == SERIAL:
        assert estimate_ms(operators, model, found) == pytest.approx(least_ms)


@pytest.mark.parametrize("model", [SERIAL, BY_NUMBER])
def test_list_scheduling_rebuilds_only_the_block_within_limits(model: int) -> None:
    backend = random_problem(2, 60)
    problem, rng = backend.problem, np.random.default_rng(0)
    operators = Operators.of(problem, backend.costs)
    level = Level.of_units(problem, backend.costs)
    start, free = problem.single(0), rng.random(60) < 0.5
    found, ms = rebuild_greedily(
        level, operators, model, start, free, problem.limits_bytes, 30, rng
    )
    assert (found[~free] == 0).all()
    assert (found[free] != 0).any()
    assert problem.infeasibility(found) == ""
    assert ms == estimate_ms(operators, model, found)


def test_blocks_have_their_share_and_follow_what_programs_prove() -> None:
    backend = random_problem(0, 100)
    operators = Operators.of(backend.problem, backend.costs)
    blocks = BlockSampler(backend.problem, operators, np.random.default_rng(0))
    sizes = [int(blocks.draw().sum()) for _ in range(100)]
    assert max(sizes) == 15
    blocks.resize(2.0)
    assert max(int(blocks.draw().sum()) for _ in range(100)) == 30
    for _ in range(20):
        blocks.resize(2.0)
    assert blocks.draw().all()


@pytest.mark.parametrize(("proven", "factor"), [(True, LARGER), (False, SMALLER)])
def test_blocks_grow_where_nothing_better_exists_and_shrink_at_a_limit(
    proven: bool, factor: float
) -> None:
    backend = random_problem(1, 100, schedule="list")
    freed: list[int] = []

    def program(place: IntArray, free: BoolArray, upper_ms: float) -> Solution:
        freed.append(int(free.sum()))
        return Solution(None, upper_ms if proven else 0.0, proven)

    evaluate = scorer(backend)
    proposals = search(
        backend.problem, backend.costs, np.random.default_rng(0), Settings(patience=0), program
    )
    placements = next(proposals)
    for _ in range(30):
        placements = proposals.send(evaluate(placements))
    assert len(freed) > 10
    assert (np.mean(freed[-5:]) > np.mean(freed[:5])) == (factor > 1.0)


@pytest.mark.parametrize("programs", [0, 3])
def test_no_more_programs_are_solved_than_the_settings_allow(programs: int) -> None:
    backend = random_problem(1, 100, schedule="list")
    solved = 0

    def program(place: IntArray, free: BoolArray, upper_ms: float) -> Solution:
        nonlocal solved
        solved += 1
        return Solution(None, 0.0, proven=False)

    evaluate, settings = scorer(backend), Settings(patience=0, programs=programs)
    proposals = search(backend.problem, backend.costs, np.random.default_rng(0), settings, program)
    placements = next(proposals)
    for _ in range(20):
        placements = proposals.send(evaluate(placements))
    assert solved == programs


def test_what_a_program_handed_in_finds_is_evaluated() -> None:
    backend = random_problem(3, 30, schedule="list")
    wanted = backend.problem.single(0)

    def program(place: IntArray, free: BoolArray, upper_ms: float) -> Solution:
        return Solution(wanted, 0.0, proven=False)

    seen: list[IntArray] = []
    settings = Settings(patience=0)
    proposals = search(backend.problem, backend.costs, np.random.default_rng(0), settings, program)
    placements = next(proposals)
    for _ in range(30):
        placements = proposals.send(scorer(backend, seen)(placements))
    assert any((one == wanted).all() for one in seen)
