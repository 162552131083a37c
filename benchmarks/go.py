"""GO on 80,000 operators and with joint decisions, compared with baselines.

    python benchmarks/go.py scale --rows scale.jsonl --arms "gdp;gdp, gcn"
    python benchmarks/go.py joint --rows joint.jsonl

A second call does what the file of rows lacks.
Arms of ``scale`` run in processes of their own; their seconds are of the CPU, over all threads.
``python benchmarks/transfer.py go`` trains across problems, ``go_pictures.py`` draws the rows.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
from common import (
    GPUS,
    Meter,
    Row,
    append_row,
    combine,
    describe_env,
    describe_run,
    make_env,
    make_parser,
    read_rows,
    run_apart,
    run_missing,
    search,
)
from summaries import (
    Describe,
    Tables,
    columns_of,
    describe_groups,
    describe_mean,
    group_by,
)

from placement_gym.bench.run import AgentSpec
from placement_gym.bench.run.provenance import origin
from placement_gym.envs import DevicePlacementEnv, placement_env
from placement_gym.problem import DECISIONS
from placement_gym.solvers import load_ms
from placement_gym.solvers.bounds import path_ms

MODEL = "family-translation-80000-seed0"
SETTING = {"granularity": "op", "schedule": "list", "observe_graph": False, "repair": True}
MARKS = (20, 200, 2_000)
"""Evaluations at which a table shows the best placement; the last ends a run."""
SPARE = 1.1
"""Times as many evaluations may have been made at a mark."""
UPDATE, CHUNK = 20, 4
"""Placements of an update of GO, and evaluations of a search between two looks at the clock."""
EVERY_S = 60.0
"""CPU seconds between two rows."""
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}
"""Makes glibc keep what is freed. Tensors of 80,000 rows else go back to the system each time, and
a quarter of the CPU seconds is spent on pages that are taken again."""
TRAINED: dict[str, dict[str, Any]] = {
    "gdp": {"n_epochs": 1, "policy": {"recompute": False}},
    "gdp, gcn": {"n_epochs": 1},
}
"""Options of the agent; one step on each rollout."""
SEARCHES = ("annealing", "search")
HEURISTICS = ("single-device", "heft")
BOUNDS = {"path": path_ms, "loads": load_ms}
ARMS = (*TRAINED, *SEARCHES, *HEURISTICS, *BOUNDS)


def run_scale(options: argparse.Namespace) -> None:
    """Run the arms that are not done, each in a process."""
    os.environ.update(MALLOC)  # which processes read as they start
    known = read_rows(options.rows)
    done = {row["arm"] for row in known if row["last"] and row["seed"] == options.seed}
    for arm in options.arms.split(";"):
        if arm not in done:
            run_apart(run_arm, options.rows, arm, options.seed)


def run_arm(path: Path, arm: str, seed: int) -> None:
    """Run an arm in this process, and add its rows."""
    for row in scale_rows(arm, seed):
        append_row(path, row)


def list_scale(rows: Sequence[Row]) -> list[Row]:
    """Latencies of each arm in ms after so many evaluations and at its end, over seeds."""
    columns: dict[str, Describe] = {
        **{f"{n:,} evaluations": partial(describe_marks, n) for n in MARKS},
        "end, ms": partial(describe_ends, "latency_ms"),
        "evaluations": partial(describe_ends, "evaluations"),
        "CPU s": partial(describe_ends, "cpu_s"),
        "peak memory, GiB": partial(describe_ends, "peak_gib"),
        "seeds": lambda mine: len(group_by(mine, "seed")),
    }
    lines = describe_groups(rows, ("arm",), columns)
    return sorted(lines, key=lambda line: ARMS.index(line["arm"]))


def describe_marks(mark: int, rows: list[Row]) -> str:
    """The best latency in ms after that many evaluations, of arms that have so many.

    Learners evaluate their answers, too, so that their updates end a few evaluations later.
    """
    near = [row for row in rows if mark <= row["evaluations"] <= SPARE * mark]
    first = [
        min(mine, key=lambda row: row["evaluations"]) for mine in group_by(near, "seed").values()
    ]
    return describe_mean([row["latency_ms"] for row in first], 0)


def describe_ends(column: str, rows: list[Row]) -> str:
    """The least and the greatest value over seeds in the last rows of the runs."""
    values = [row[column] for row in rows if row["last"]]
    digits = 1 if max(values) < 10 and column != "evaluations" else 0
    least, most = (f"{value:,.{digits}f}" for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def scale_rows(arm: str, seed: int) -> Iterator[Row]:
    """The rows of an arm: evaluations, CPU seconds, peak memory and the best latency so far."""
    if arm in SEARCHES:  # compiles kernels before time counts
        small = make_env("synthetic-layered-100", devices=GPUS, **SETTING)
        search(small, Meter(small.backend, [40]), AgentSpec(arm), seed, 40)
    began_s = process_time()
    env, spec = make_env(MODEL, devices=GPUS, **SETTING), choose_agent(arm)
    env.backend = meter = Meter(env.backend, (sys.maxsize,))
    if arm in BOUNDS:
        points = iter([(0, BOUNDS[arm](env.problem, env.cost_table()), True)])
    elif arm in HEURISTICS:
        found = spec.make(env, seed).assignment
        points = iter([(0, meter.evaluate(found).latency_ms, True)])
    else:
        points = follow(env, meter, spec, seed)
    for evaluations, latency_ms, last in points:
        yield (
            origin()
            | describe_run(describe_env(env), spec, seed, MARKS[-1], meter)
            | {
                "model": MODEL,
                "operators": env.problem.n_units,
                "arm": arm,
                "evaluations": evaluations,
                "latency_ms": latency_ms,
                "cpu_s": round(process_time() - began_s, 1),
                "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
                "last": last,
            }
        )


def choose_agent(arm: str) -> AgentSpec:
    """The agent of an arm, or the function of a bound."""
    if arm in TRAINED:
        return AgentSpec("gcn" if arm == "gdp, gcn" else "gdp", TRAINED[arm])
    return AgentSpec(
        f"placement_gym.solvers.bounds:{BOUNDS[arm].__name__}" if arm in BOUNDS else arm
    )


def follow(
    env: DevicePlacementEnv, meter: Meter, spec: AgentSpec, seed: int
) -> Iterator[tuple[int, float, bool]]:
    """Evaluations, the best latency in ms and whether it is the end, at each mark and minute.

    The horizon, over which a search cools down, is what it may evaluate.
    """
    reference_ms, trains = env.reference.reference_ms, spec.name in ("gdp", "gcn")
    agent: Any = spec.make(env, seed)
    agent.horizon = MARKS[-1]
    marks, minute_s, over = list(MARKS), EVERY_S, False
    while not over:
        agent.learn(UPDATE, reset_num_timesteps=False) if trains else agent.learn(CHUNK)
        over = meter.n >= MARKS[-1]
        reached = meter.n >= marks[0]
        if reached or meter.cpu_s >= minute_s:
            marks = marks[reached:]
            minute_s = (meter.cpu_s // EVERY_S + 1.0) * EVERY_S
            yield meter.n, reference_ms / meter.curve[-1][2], over


DECIDERS = {
    "gdp": AgentSpec("gdp"),
    "gdp, REINFORCE": AgentSpec("agents.gdp:make_reinforce"),
    "annealing": AgentSpec("annealing"),
    "annealing from random": AgentSpec("annealing", {"start": "random"}),
}
ALONE, ALL = "placement", "all three"
SETS = {ALONE: DECISIONS[:1], ALL: DECISIONS}


def run_joint(options: argparse.Namespace) -> None:
    """Decide placement alone, and with priority and fusion."""
    jobs = combine(
        model=("inception", "bert-8"),
        decisions=SETS,
        seed=range(options.seeds),
        arm=options.arms.split(";"),
        budget=[400],
    )
    run_missing(options.rows, jobs, decide)


def list_joint(rows: Sequence[Row]) -> list[Row]:
    """Latencies in ms with each set of decisions, and what more of them gain."""
    columns = columns_of(rows, "decisions", describe_latencies)
    ends: dict[str, Describe] = {"gain, %": describe_gain, "CPU s of all three": describe_seconds}
    return describe_groups(rows, ("model", "arm"), columns | ends)


def decide(model: str, decisions: str, arm: str, seed: int, budget: int) -> Row:
    """The best latency that an agent has evaluated within its budget."""
    made = gym.make(
        "DevicePlacementSim-v0",
        model=model,
        schedule="event",
        devices="cpu+2dgpu",
        observe_graph=False,
        decisions=SETS[decisions],
    )
    env, started = placement_env(made, joint=True), process_time()
    counted = Meter(env.backend, [budget])
    search(env, counted, DECIDERS[arm], seed, budget)
    cpu_s = round(process_time() - started, 1)
    return describe_run(describe_env(env), DECIDERS[arm], seed, budget, counted) | {"cpu_s": cpu_s}


def describe_latencies(rows: list[Row]) -> str:
    """The mean over seeds."""
    return describe_mean([row["latency_ms"] for row in rows])


def describe_gain(rows: list[Row]) -> str:
    """Percent that all decisions gain over the placement alone, seed by seed."""
    ms = {(row["decisions"], row["seed"]): row["latency_ms"] for row in rows}
    seeds = [seed for decisions, seed in ms if decisions == ALONE and (ALL, seed) in ms]
    return describe_mean([100.0 * (1.0 - ms[ALL, seed] / ms[ALONE, seed]) for seed in seeds], 1)


def describe_seconds(rows: list[Row]) -> str:
    """The mean of all three."""
    return f"{np.mean([row['cpu_s'] for row in rows if row['decisions'] == ALL]):.1f}"


TABLES: Tables = {"scale": list_scale, "joint": list_joint}
"""Name -> the table on the page."""


def main() -> None:
    parser = make_parser(__doc__)
    commands = parser.add_subparsers(required=True)

    def add(
        name: str, run: Callable[[argparse.Namespace], None], arms: Iterable[str]
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--rows", type=Path, required=True, help="file of results")
        command.add_argument("--arms", default=";".join(arms), help="%(default)s")
        return command

    scale = add("scale", run_scale, ARMS)
    scale.add_argument("--seed", type=int, default=0, help="%(default)s")
    joint = add("joint", run_joint, DECIDERS)
    joint.add_argument("--seeds", type=int, default=5, help="%(default)s")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
