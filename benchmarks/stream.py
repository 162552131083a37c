"""Placing graphs that no policy has seen, within milliseconds of processor time.

    python benchmarks/stream.py arms --rows rows.jsonl
    python benchmarks/stream.py rules --rows rules.jsonl

All arms place the test problems of ``DevicePlacementStream-v0``; ``rules`` are list schedules
without weights. CPU seconds count from a problem to an answer: making schedulers and statistics,
and simulating answers, is included. A score is the best latency of all arms over an arm's, 0
without an answer; ± is half of the 95 % interval of its mean over problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from time import process_time
from typing import Any

import numpy as np
from common import Meter, Row, combine, run_benchmark, search
from numpy.typing import NDArray
from summaries import Tables, first, group_by, interval, pivot, tabulate

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
PROBLEMS = 1000
WARM = 3
"""Problems that are placed untimed, which loads compiled code."""
ListArms = Callable[[StreamEnv], Mapping[str, Arm]]


def list_jobs() -> Iterator[Row]:
    return combine(problem=StreamEnv("test", PROBLEMS).seeds)


def place(make_arms: ListArms, problem: int) -> Row:
    return place_all(*prepare(make_arms), problem)


@cache
def prepare(make_arms: ListArms) -> tuple[StreamEnv, Mapping[str, Arm]]:
    """Make the problems and the arms, and load compiled code."""
    env, train = StreamEnv("test", PROBLEMS), StreamEnv("train", WARM)
    arms = make_arms(env)
    for seed in train.seeds:
        place_all(train, arms, seed)
    return env, arms


def place_all(env: StreamEnv, arms: Mapping[str, Arm], problem: int) -> Row:
    found = env.find_problem(problem)
    return {
        "family": found.sampled.family,
        "units": found.problem.n_units,
        "limited": found.problem.limited,
        "schedule": found.simulator.semantics.schedule,
        "arms": {name: arm(found, problem) for name, arm in arms.items()},
    }


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


def score_times(rows: Sequence[Row]) -> list[Row]:
    """The score of each arm on each problem after each of ``TIMES_MS``."""
    answers = [
        {"problem": row["problem"], "arm": arm, "ms": ms, "cpu_s": cpu_s}
        for row in rows
        for arm, given in row["arms"].items()
        for _, ms, cpu_s in given
    ]
    best_ms = {problem: min(answer["ms"] for answer in mine)
               for (problem,), mine in group_by(answers, "problem").items()}  # fmt: skip

    def score(problem: int, within_s: float, mine: Sequence[Row]) -> float:
        known = [answer["ms"] for answer in mine if answer["cpu_s"] <= within_s]
        return float(best_ms[problem] / min(known, default=np.inf))

    return [
        {
            "problem": problem,
            "arm": arm,
            "after": f"{time_ms} ms",
            "score": score(problem, time_ms / 1e3, mine),
        }
        for (problem, arm), mine in group_by(answers, "problem", "arm").items()
        for time_ms in TIMES_MS
    ]


def list_times(rows: Sequence[Row]) -> list[Row]:
    """Mean score of each arm after some CPU time."""
    runs = [run for run in score_times(rows) if run["arm"] != WRONG]
    return tabulate(runs, ["arm"], {"arm": first("arm"), **pivot(runs, "after", interval("score"))})


TABLES: Tables = {"times": list_times}


if __name__ == "__main__":
    run_benchmark(__doc__, {"arms": (list_jobs, partial(place, list_arms)),
                            "rules": (list_jobs, partial(place, list_rules))})  # fmt: skip
