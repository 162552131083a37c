"""Placing graphs that no policy has seen, within milliseconds of processor time.

    python benchmarks/stream_trainings.py --folder policies
    python benchmarks/stream.py --rows rows.jsonl --problems 100 --policies policies
    python benchmarks/stream.py --rows published.jsonl --data DNN_PARTITIONING PIPEDREAM
    python benchmarks/stream.py --rows docs/results/stream-rows.jsonl.gz --tables
    python benchmarks/stream.py --speed

Problems are those of ``DevicePlacementStream-v0``, of the test split or of ``--split validation``.
Seconds are of the process, from when a problem is known to an answer: schedulers and statistics
are made within them. Answers of estimates are simulated within them as well. ``--data`` places
published inputs, on accelerators with little memory, by list schedules alone. ``--speed`` prints
steps of environments a second of the process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from common import (
    BY_RANK,
    Describe,
    Meter,
    Row,
    columns_of,
    combine,
    describe_mean,
    group_by,
    make_env,
    make_parser,
    print_groups,
    print_table,
    read_rows,
    run_missing,
    search,
)
from floors import find_models
from stream_trainings import Draw, load_policies

from placement_gym.base.arrays import IntArray
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.provenance import git_commit
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.envs.stream import StreamEnv
from placement_gym.envs.stream_problem import StreamProblem
from placement_gym.graph.families.stream import UNSEEN
from placement_gym.problem.patterns import random_blocks
from placement_gym.schedules.limits import cost_ms
from placement_gym.solvers.list_policy.policy import MANY, ONE, ListPolicy
from placement_gym.solvers.list_policy.scheduler import ListScheduler, draw_actions
from placement_gym.solvers.list_policy.statistics import compute_statistics
from placement_gym.solvers.list_scheduling import heft
from placement_gym.solvers.search import anytime
from placement_gym.version import VERSION

Curve = list[tuple[str, float, float]]
"""Label, latency in ms and CPU seconds of each answer of an arm."""
Arm = Callable[[StreamProblem, int], Curve]
"""Places a problem; with a seed."""
TIMES_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""When the best placement of a search is looked at."""
SAMPLES = (1, 8, 20, 100)
RANDOM_SAMPLES = (*SAMPLES, 1000)
DEVICES = ("1cpu+2acc@0.3", "1cpu+4acc@0.2")
ANNEALED = 300
"""Evaluations over which annealing cools, more than it has time for."""
ENV_ID, STEPS, ROUNDS = "DevicePlacementStream-v0", 20, 10
"""Steps of a round of ``--speed``, and rounds, of which the fastest counts."""
SIMPLE = {"granularity": "op", "observe_graph": False}
PUBLISHED_SEEDS, PUBLISHED_SAMPLES = 3, (1, 8, 20, 100, 500)
WARM = 3
"""Problems that are placed untimed, so that compiled code is loaded."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, help="rows, added to and read")
    parser.add_argument("--problems", type=int, default=1000, help="how many (%(default)s)")
    parser.add_argument("--split", default="test", help="test or validation (%(default)s)")
    parser.add_argument("--policies", type=Path, help="folder of further policies to compare")
    parser.add_argument("--data", type=Path, nargs="+", help="folders of published inputs")
    parser.add_argument("--tables", action="store_true", help="print tables of the rows alone")
    parser.add_argument("--speed", action="store_true", help="time steps of environments alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.speed:
        print_table(time_steps())
    elif options.data:
        print_published(run_published(options))
    else:
        print_tables(read_rows(options.rows) if options.tables else run(options))


def run(options: argparse.Namespace) -> list[Row]:
    """Place the problems that have no row; returns all rows."""
    env = StreamEnv(options.split, options.problems)
    arms = list_arms(env, options.policies)
    train = StreamEnv("train", WARM)
    for seed in train.seeds:
        place_all(train, arms, seed)
    return run_missing(options.rows, combine(problem=env.seeds), partial(place_all, env, arms))


def list_arms(env: StreamEnv, folder: Path | None) -> dict[str, Arm]:
    """What is compared, by name; a folder has further policies."""
    one, many = ListPolicy.load(ONE).draw, ListPolicy.load(MANY).draw
    arms: dict[str, Arm] = {
        "HEFT": run_heft,
        "random blocks": run_blocks,
        "random weights": partial(run_lists, None, RANDOM_SAMPLES),
        "list-policy, one": partial(run_lists, one, (1,)),
        "list-policy, one, other statistics": partial(run_lists, one, (1,), others=env),
        "list-policy, many": partial(run_lists, many, SAMPLES),
        "annealing": run_annealing,
        "search": partial(run_search, True),
        "search without learned starts": partial(run_search, False),
    }
    for name, draw, sizes in load_policies(folder) if folder else ():
        arms[f"trained: {name}"] = partial(run_lists, draw, sizes)
    return arms


def place_all(env: StreamEnv, arms: dict[str, Arm], problem: int) -> Row:
    """What each arm reaches on a problem."""
    found = env.find_problem(problem)
    return {
        "problem": problem,
        "family": found.sampled.family,
        "units": found.problem.n_units,
        "limited": found.problem.limited,
        "schedule": found.simulator.semantics.schedule,
        "version": VERSION,
        "commit": git_commit(),
        "arms": {name: arm(found, problem) for name, arm in arms.items()},
    }


def run_heft(problem: StreamProblem, _: int) -> Curve:
    """HEFT's placement, repaired."""
    began = process_time()
    cost, _ = problem.repair(heft(problem.problem, problem.simulator.costs))
    return [("1", cost, process_time() - began)]


def run_blocks(problem: StreamProblem, seed: int) -> Curve:
    """The best of 100 placements in random blocks, repaired."""
    began, rng = process_time(), np.random.default_rng(seed)
    places = np.stack([random_blocks(problem.problem, rng) for _ in range(100)]).astype(np.uint8)
    fitting = problem.scheduler.repair(places)
    cost = min(cost_ms(problem.problem, problem.simulator, place) for place in fitting)
    return [("100", cost, process_time() - began)]


def run_lists(
    draw: Draw | None,
    sizes: Sequence[int],
    problem: StreamProblem,
    seed: int,
    others: StreamEnv | None = None,
) -> Curve:
    """The best of so many list schedules, of which each number is drawn anew.

    Args:
        draw: Draws their weights; None draws random ones.
        sizes: Numbers of schedules.
        problem: What is placed.
        seed: Of all draws.
        others: Weights are drawn by statistics of another problem of these.
    """
    curve: Curve = []
    for size in sizes:
        began, rng = process_time(), np.random.default_rng(seed)
        scheduler = ListScheduler(problem.problem, problem.simulator)
        if draw is None:
            actions = draw_actions(rng, size)
        else:
            seen = compute_statistics(scheduler.view)
            if others is not None:
                wrong = others.seeds[(seed + 7) % len(others.seeds)]
                seen = others.find_problem(wrong).statistics
            actions = draw(seen, size, rng)
        costs_ms = scheduler.find_best(actions, rng)[1]
        curve.append((str(size), float(costs_ms[0]), process_time() - began))
    return curve


def run_search(learned: bool, problem: StreamProblem, seed: int) -> Curve:
    """The best placement of a search after each time."""
    propose, began = anytime.propose_lists, process_time()
    if not learned:
        anytime.propose_lists = propose_nothing  # type: ignore[assignment]
    try:
        rng = np.random.default_rng(seed)
        search = anytime.AnytimeSearch(problem.problem, problem.simulator, rng)
        return list(watch(search, began))
    finally:
        anytime.propose_lists = propose


def run_annealing(problem: StreamProblem, seed: int) -> Curve:
    """The best placement of annealing after each time but the last."""
    kwargs = {**problem.sampled.env_kwargs(), "repair": True, "observe_graph": False}
    env = SimulatedEnv(**kwargs)
    meter = Meter(env.backend, cpu_seconds=TIMES_S[:-1])
    search(env, meter, AgentSpec("annealing"), seed, ANNEALED)
    reached = [
        (time_s, [up for _, at_s, up in meter.curve if at_s <= time_s]) for time_s in TIMES_S[:-1]
    ]
    return [
        (f"{1e3 * time_s:g} ms", problem.reference_ms / max(ups) if ups else np.inf, time_s)
        for time_s, ups in reached
    ]


def propose_nothing(*_: Any) -> Iterator[IntArray]:
    """No starts."""
    return iter(())


def watch(search: Any, began: float) -> Iterator[tuple[str, float, float]]:
    """Yield the best latency that is known at each of ``TIMES_S``, infinite if none is."""
    known, waiting = np.inf, list(TIMES_S)
    for state, _ in search.run():
        now = process_time() - began
        while waiting and now > waiting[0]:
            time_s = waiting.pop(0)
            yield f"{1e3 * time_s:g} ms", known, time_s
        if not waiting:
            return
        search.note(state)
        known = search.best.ms


def time_steps() -> Iterator[Row]:
    """Time steps with random actions, all problems made before."""
    for name, num_envs, kwargs in (
        (ENV_ID, 64, {"sizes": (150, 310)}),
        (ENV_ID, 64, {}),
        (ENV_ID, 1, {}),
        ("CartPole-v1", 1, {}),
    ):
        envs: Any = gym.make_vec(name, num_envs, **kwargs)
        envs.reset(seed=0)
        envs.action_space.seed(0)
        actions = [envs.action_space.sample() for _ in range(STEPS)]
        seconds = []
        for _ in range(ROUNDS + 1):  # problems are made, and code is loaded, in the first
            began = process_time()
            for action in actions:
                envs.step(action)
            seconds.append(process_time() - began)
        units = [made.problem.n_units for made in list_problems(envs)]
        yield {
            "environment": name,
            "units": f"{np.mean(units):.0f}" if units else "-",
            "at once": num_envs,
            "steps a CPU second": f"{STEPS * num_envs / min(seconds[1:]):.0f}",
        }


def list_problems(envs: Any) -> list[StreamProblem]:
    """All problems of a stream; none of other environments."""
    streams = [one for one in envs.envs[:1] if isinstance(one, StreamEnv)]
    return [env.find_problem(seed) for env in streams for seed in env.seeds]


def run_published(options: argparse.Namespace) -> list[Row]:
    """Place published inputs that have no row; returns all rows."""
    files = find_models(options.data)
    jobs = combine(model=files, devices=DEVICES, seed=range(PUBLISHED_SEEDS))
    one, many = ListPolicy.load(ONE), ListPolicy.load(MANY)
    arms = {"random weights": None, "one": one.draw, "many": many.draw}

    def place_published(model: str, devices: str, seed: int) -> Row:
        env = make_env(files[model][0], devices=devices, schedule=BY_RANK, **SIMPLE)
        problem: Any = SimpleNamespace(
            problem=env.problem,
            simulator=env.backend.simulator,  # type: ignore[attr-defined]
        )
        curves = {
            name: run_lists(draw, PUBLISHED_SAMPLES, problem, seed) for name, draw in arms.items()
        }
        return {"arms": curves}

    return run_missing(options.rows, jobs, place_published)


def print_published(rows: Sequence[Row]) -> None:
    """Print the mean score of each arm by the number of schedules."""
    runs: list[Row] = []
    for mine in group_by(rows, "model", "devices").values():
        best_ms = min(cell[1] for row in mine for curve in row["arms"].values() for cell in curve)
        runs += [
            {"arm": arm, "schedules": label, "score": best_ms / ms}
            for row in mine
            for arm, curve in row["arms"].items()
            for label, ms, _ in curve
        ]
    print_groups(runs, ["arm"], columns_of(runs, "schedules", partial(describe, "score")))


def list_runs(rows: Sequence[Row]) -> list[Row]:
    """A row of each answer of each arm, with its score: best known latency over its own."""
    runs: list[Row] = []
    for row in rows:
        cells = [(arm, *cell) for arm, curve in row["arms"].items() for cell in curve]
        best_ms = min(ms for _, _, ms, _ in cells)
        heft_ms = row["arms"]["HEFT"][0][1]
        runs += [
            {
                **row,
                "arm": f"{arm}, {label}",
                "score": best_ms / ms,
                "of_heft": heft_ms / ms,
                "cpu_s": cpu_s,
            }
            for arm, label, ms, cpu_s in cells
        ]
    return runs


def print_tables(rows: Sequence[Row]) -> None:
    """Print the scores of all arms, in all and on problems of some kinds, and gains of starts."""
    runs = list_runs(rows)
    columns: dict[str, Describe] = {
        "problems": len,
        "score": partial(describe, "score"),
        "x HEFT": partial(describe, "of_heft"),
        "other families": lambda mine: describe(
            "of_heft", [run for run in mine if run["family"] in UNSEEN]
        ),
        "limited": lambda mine: describe("score", [run for run in mine if run["limited"]]),
        "CPU ms": lambda mine: f"{1e3 * np.mean([run['cpu_s'] for run in mine]):.1f}",
    }
    print_groups(runs, ["arm"], columns)
    by_arm = group_by(runs, "arm")
    gains = []
    for time_s in TIMES_S:
        name = f"{1e3 * time_s:g} ms"
        ours, theirs = (
            by_arm[f"{arm}, {name}",] for arm in ("search", "search without learned starts")
        )
        gains += [
            {"after": name, "gain": one["score"] - other["score"]}
            for one, other in zip(ours, theirs, strict=True)
        ]
    print_groups(gains, ["after"], {"gain": partial(describe, "gain")}, "by learned starts")


def describe(key: str, runs: Sequence[Row]) -> str:
    return describe_mean([run[key] for run in runs])


if __name__ == "__main__":
    main()
