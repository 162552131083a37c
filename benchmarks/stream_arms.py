"""Arms that place the problems of a stream within milliseconds.

CPU seconds count from a problem to an answer: making schedulers and statistics, and simulating
answers, is included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from common import Meter, search
from numpy.typing import NDArray

from placement_gym.base import FloatArray, IntArray
from placement_gym.bench.run import AgentSpec
from placement_gym.envs import SimulatedEnv, StreamEnv, StreamProblem
from placement_gym.problem import Problem, random_blocks
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers import heft
from placement_gym.solvers.list_policy import (
    MANY,
    N_WEIGHTS,
    ONE,
    ListPolicy,
    ListScheduler,
    compute_statistics,
    draw_actions,
    earliest_finish,
    lookahead,
)
from placement_gym.solvers.search import AnytimeSearch

TIMES_MS = (1, 3, 10, 30, 100, 300, 1000)
"""Times at which arms are compared."""
WRONG = "list-policy, one, other statistics"
"""Arm that shows the value of statistics, as it has those of another problem."""
Draw = Callable[[NDArray[Any], int, np.random.Generator], FloatArray]
"""Draws actions for statistics, the most likely one first."""
Answers = list[tuple[str, float, float]]
"""Label, latency in ms and CPU seconds of each answer of an arm."""
Arm = Callable[[StreamProblem, int], Answers]
"""Places a problem with a seed."""
SAMPLES, BLOCKS = (1, 8, 20, 100, 1000), (10, 100)
"""Numbers of list schedules, and of placements in random blocks."""
ANNEALED = 300
"""Evaluations over which annealing cools, more than it has time for."""


def draw_neutral(_: Any, number: int, __: np.random.Generator) -> FloatArray:
    return np.zeros((number, N_WEIGHTS))


def list_arms(env: StreamEnv) -> dict[str, Arm]:
    one, many = ListPolicy.load(ONE).draw, ListPolicy.load(MANY).draw
    return {
        "HEFT": partial(run_solver, solve_heft),
        "random blocks": run_blocks,
        "neutral weights": partial(run_lists, draw_neutral, (1,)),
        "random weights": partial(run_lists, None, SAMPLES),
        "list-policy, one": partial(run_lists, one, (1,)),
        WRONG: partial(run_lists, one, (1,), others=env),
        "list-policy, many": partial(run_lists, many, SAMPLES),
        "annealing": run_annealing,
        "search": partial(run_search, True),
        "search without learned starts": partial(run_search, False),
    }


def list_rules(_: StreamEnv) -> dict[str, Arm]:
    """List schedules without weights."""
    return {
        "earliest finish": partial(run_solver, earliest_finish),
        "lookahead": partial(run_solver, lookahead),
    }


def run_solver(
    solve: Callable[[Problem, Simulator], IntArray], problem: StreamProblem, _: int
) -> Answers:
    """A solver's placement, repaired."""
    began = process_time()
    cost, _ = problem.repair(solve(problem.problem, problem.simulator))
    return [("1", cost, process_time() - began)]


def solve_heft(problem: Problem, simulator: Simulator) -> IntArray:
    return heft(problem, simulator.costs)


def run_blocks(problem: StreamProblem, seed: int) -> Answers:
    """The best of some placements in random blocks, repaired."""
    answers: Answers = []
    for number in BLOCKS:
        began, rng = process_time(), np.random.default_rng(seed)
        places = np.stack([random_blocks(problem.problem, rng) for _ in range(number)])
        fitting = problem.scheduler.repair(places.astype(np.uint8))
        cost = min(cost_ms(problem.problem, problem.simulator, place) for place in fitting)
        answers.append((str(number), cost, process_time() - began))
    return answers


def run_lists(
    draw: Draw | None,
    sizes: Sequence[int],
    problem: StreamProblem,
    seed: int,
    others: StreamEnv | None = None,
) -> Answers:
    """The best of each number of list schedules, which are drawn separately.

    None draws random weights; ``others`` provide the statistics of another problem.
    """
    wrong = None
    if others is not None:
        wrong = others.find_problem(others.seeds[(seed + 7) % len(others.seeds)]).statistics
    answers: Answers = []
    for size in sizes:
        began, rng = process_time(), np.random.default_rng(seed)
        scheduler = ListScheduler(problem.problem, problem.simulator)
        if draw is None:
            actions = draw_actions(rng, size)
        else:
            seen = compute_statistics(scheduler.view)
            actions = draw(seen if wrong is None else wrong, size, rng)
        costs_ms = scheduler.find_best(actions, rng)[1]
        answers.append((str(size), float(costs_ms[0]), process_time() - began))
    return answers


def run_search(learned: bool, problem: StreamProblem, seed: int) -> Answers:
    """The best placement of a search after each time."""
    began, rng = process_time(), np.random.default_rng(seed)
    starts = None if learned else ()
    search = AnytimeSearch(problem.problem, problem.simulator, rng, starts)
    return list(watch(search, began))


def watch(search: AnytimeSearch, began: float) -> Iterator[tuple[str, float, float]]:
    """Yield the best known latency at each of ``TIMES_MS``, infinite if there is none."""
    known, waiting = np.inf, list(TIMES_MS)
    for state, _ in search.advance_chains():
        passed_ms = 1e3 * (process_time() - began)
        while waiting and passed_ms > waiting[0]:
            time_ms = waiting.pop(0)
            yield f"{time_ms} ms", known, time_ms / 1e3
        if not waiting:
            return
        search.keep_elite(state)
        known = search.best.ms


def run_annealing(problem: StreamProblem, seed: int) -> Answers:
    """The best placement of annealing from random starts after each time."""
    kwargs = {**problem.sampled.env_kwargs(), "repair": True, "observe_graph": False}
    env, times_s = SimulatedEnv(**kwargs), [time_ms / 1e3 for time_ms in TIMES_MS]
    meter = Meter(env.backend, cpu_seconds=times_s)
    search(env, meter, AgentSpec("annealing", {"start": "random"}), seed, ANNEALED)
    reached = [[up for _, at_s, up in meter.curve if at_s <= time_s] for time_s in times_s]
    return [
        (f"{1e3 * time_s:g} ms", problem.reference_ms / max(ups) if ups else np.inf, time_s)
        for time_s, ups in zip(times_s, reached, strict=True)
    ]
