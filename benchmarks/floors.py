"""Searches and placers where memory is scarce, at equal evaluations and at equal CPU seconds.

    PIPEDREAM=DIR python benchmarks/floors.py --rows rows.jsonl

DIR holds the profiles of pipedream. One long run serves every budget of an anytime placer. CPU
seconds count from when a placer is made, after an untimed run on a small workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np
from common import (
    BY_RANK,
    Meter,
    Row,
    best_known_ms,
    combine,
    describe_env,
    describe_run,
    find_workloads,
    make_env,
    run_benchmark,
    search,
)
from summaries import Describe, Tables, first, group_by, number, pivot, tabulate

from placement_gym.base import MAX_INTEGER
from placement_gym.bench.run import AgentSpec
from placement_gym.envs import DevicePlacementEnv
from placement_gym.hardware.device_requests import parse_counts
from placement_gym.solvers import load_ms

SEARCH, TWO, FOUR = "search", "1cpu+2acc@0.3", "1cpu+4acc@0.2"
TRIAL = 50
"""Evaluations on a small workload before a run, which load compiled code."""
STARTS: Sequence[Mapping[str, Any]] = ({}, {"start": "quick"}, {"start": "random"})
SIMPLE = {name: AgentSpec(name) for name in ("heft", "random-blocks")}
LOCAL = {
    spec.label: spec
    for spec in (AgentSpec(name, start) for name in ("hill-climb", "annealing") for start in STARTS)
}
LEARNED = {name: AgentSpec(name) for name in ("hsdag", "graph-groups")}
PLACERS = {name: AgentSpec(name) for name in (SEARCH, "greedy")} | SIMPLE | LOCAL | LEARNED
"""Label of the runs -> agent."""
PLANNED = ("annealing", "graph-groups", "hsdag")
"""Agents whose search depends on the budget; one run of the others serves all budgets."""
GENERATED = ("synthetic-", "stacked-")
"""Prefixes of generated graphs, which have a separate table."""
LARGE = ("synthetic-layered-20000", "synthetic-layered-80000", "stacked-bert-80000")
UNITS = {"evaluations": 0, "cpu_seconds": 1}
"""Unit of a budget -> its index in the points of curves."""


def list_jobs() -> Iterator[Row]:
    workloads, both = find_workloads(), (TWO, FOUR)
    yield from plan([SEARCH], workloads, both, range(3), [1, 20, 100, 500], [])
    yield from plan([SEARCH], workloads, both, range(3), [], [0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
    plain = [*LOCAL, *SIMPLE]
    yield from plan(plain, workloads, both, range(1), [100, 500], [0.1, 1.0, 10.0], repair=True)
    yield from plan(["greedy"], workloads, both, range(1), [100, 500], [], repair=True)
    yield from plan(LEARNED, workloads, both, range(3), [100, 500], [], repair=True)
    yield from plan(["heft", SEARCH], LARGE, [TWO], range(2), [], [3.0, 10.0, 30.0])


def plan(
    arms: Iterable[str],
    models: Iterable[str],
    devices: Iterable[str],
    seeds: Iterable[int],
    evaluations: list[int],
    seconds: list[float],
    repair: bool = False,
) -> Iterator[Row]:
    """Jobs of some arms: of ``PLANNED`` ones for each budget, of others for all."""
    alone: list[Row] = [{"evaluations": [n], "cpu_seconds": []} for n in evaluations]
    alone += [{"evaluations": [], "cpu_seconds": [limit_s]} for limit_s in seconds]
    for job in combine(seed=seeds, model=models, devices=devices, repair=[repair], arm=arms):
        planned = PLACERS[job["arm"]].name in PLANNED
        for budget in alone if planned else [{"evaluations": evaluations, "cpu_seconds": seconds}]:
            yield job | budget


def load(model: str, devices: str, repair: bool) -> DevicePlacementEnv:
    """Make the environment of a workload; devices of a generated graph are a CPU and GPUs."""
    kwargs: dict[str, Any] = {"observe_graph": False, "repair": repair}
    if model.startswith(GENERATED):
        known = [device.to_json() for device in parse_counts(devices) or ()]
        renamed = [one | {"name": one["name"].replace("ACC", "GPU")} for one in known]
        return make_env(model, **kwargs, devices=renamed, schedule="list")
    file = find_workloads()[model]
    return make_env(file, **kwargs, granularity="op", schedule=BY_RANK, devices=devices)


def run(
    seed: int,
    model: str,
    devices: str,
    repair: bool,
    arm: str,
    evaluations: Sequence[int],
    cpu_seconds: Sequence[float],
) -> Row:
    """Run an agent until its budgets are reached; its row holds the curve of latencies, in ms."""
    spec, error = PLACERS[arm], ""
    small = "synthetic-layered-100" if model in LARGE else "LayerGraphs/bert24_inference"
    warm_up(arm, small, devices, repair)
    planned = plan_evaluations(load(model, devices, repair), spec, seed, evaluations, cpu_seconds)
    env = load(model, devices, repair)
    reference_ms, meter = env.reference.latency_ms, Meter(env.backend, evaluations, cpu_seconds)
    try:
        search(env, meter, spec, seed, planned)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    cpu_s = meter.cpu_s
    about = describe_run(describe_env(env), spec, seed, planned, meter)
    return about | {
        "evaluations": evaluations,
        "curve": [(n, seconds, reference_ms / speedup) for n, seconds, speedup in meter.curve],
        "n_evaluations": meter.n,
        "best_known_ms": best_known_ms(env),
        "bound_ms": load_ms(env.problem, env.cost_table()),
        "cpu_s": cpu_s,
        "error": error or about["error"],
    }


@cache
def warm_up(arm: str, model: str, devices: str, repair: bool) -> None:
    """Let a placer search a small problem, which loads its compiled code."""
    env = load(model, devices, repair)
    with suppress(Exception):  # a run that fails says so in its row
        search(env, Meter(env.backend, (TRIAL,)), PLACERS[arm], 0, TRIAL)


def plan_evaluations(
    env: DevicePlacementEnv,
    spec: AgentSpec,
    seed: int,
    evaluations: Sequence[int],
    cpu_seconds: Sequence[float],
) -> int:
    """The budget of a search in evaluations; for a planned one in seconds, by its trial's speed."""
    if spec.name not in PLANNED:
        return MAX_INTEGER
    if evaluations:
        return evaluations[0]
    meter = Meter(env.backend, (10 * TRIAL,))
    search(env, meter, spec, seed, 10 * TRIAL)
    first_s = meter.curve[0][1] if meter.curve else 0.0
    speed = meter.n / max(meter.cpu_s - first_s, 1e-6)
    return max(int(speed * (cpu_seconds[0] - first_s)), 1)


def summarize(rows: Sequence[Row], generated: bool = False) -> list[Row]:
    """A line for each placer, workload and budget: the median of its runs."""
    known_ms = find_best_known(rows)
    runs = [
        row | {"unit": unit, "budget": budget, "ms": latency_at(row, unit, budget)}
        for row in rows
        if row["model"].startswith(GENERATED) is generated
        for unit in UNITS
        for budget in row.get(unit, ())
    ]
    runs.sort(key=lambda run: run["budget"])
    return [
        mine[0]
        | {
            "ms": (ms := float(np.median([run["ms"] for run in mine]))),
            "known_ms": known_ms[model, devices],
            "score": known_ms[model, devices] / ms,
        }
        for (model, devices, _, _, _), mine in group_by(
            runs, "model", "devices", "arm", "unit", "budget"
        ).items()
    ]


def find_best_known(rows: Sequence[Row]) -> dict[tuple[Any, ...], float]:
    """The lowest latency in ms of each problem that is known or in these rows."""
    return {
        problem: min(
            min(row["best_known_ms"] or np.inf for row in mine),
            min((row["curve"][-1][2] for row in mine if row["curve"]), default=np.inf),
        )
        for problem, mine in group_by(rows, "model", "devices").items()
    }


def latency_at(row: Row, unit: str, budget: float) -> float:
    """The lowest latency in ms within a budget, infinite without any."""
    within = [point[2] for point in row["curve"] if point[UNITS[unit]] <= budget]
    return within[-1] if within else np.inf


def list_scores(unit: str, rows: Sequence[Row]) -> list[Row]:
    """Mean score of each agent on all workloads after each budget; the best last one first."""
    lines = [line for line in summarize(rows) if line["unit"] == unit]
    last = [line for line in lines if line["budget"] == lines[-1]["budget"]]
    means = {
        arm: np.mean([line["score"] for line in mine])
        for (arm,), mine in group_by(last, "arm").items()
    }
    columns = pivot(lines, "budget", number("score", ".3f"))
    lines.sort(key=lambda line: -means[line["arm"]])
    return tabulate(lines, ["arm"], {"agent": first("arm")} | columns)


def list_problems(rows: Sequence[Row]) -> list[Row]:
    """Scores of ``search`` on each workload, and of the best other agent after 10 seconds."""

    def score(unit: str, budget: float, lines: list[Row]) -> str:
        (line,) = (one for one in pick(unit, budget, lines) if one["arm"] == SEARCH)
        return f"{line['score']:.3f}"

    def score_other(lines: list[Row]) -> str:
        others = [one for one in pick("cpu_seconds", 10.0, lines) if one["arm"] != SEARCH]
        best = max(others, key=lambda line: line["score"])
        return f"{best['score']:.3f} (`{best['arm']}`)"

    columns: dict[str, Describe] = {
        "workload": lambda lines: lines[0]["model"].removesuffix("_inference"),
        "devices": first("devices"),
        "best known, ms": first("known_ms", "{:.5g}"),
        **{f"{s:g} s": partial(score, "cpu_seconds", s) for s in (0.1, 1.0, 10.0)},
        **{f"{n} evaluations": partial(score, "evaluations", n) for n in (100, 500)},
        "best other, 10 s": score_other,
    }
    return tabulate(summarize(rows), ["model", "devices"], columns)


def pick(unit: str, budget: float, lines: Sequence[Row]) -> list[Row]:
    return [line for line in lines if (line["unit"], line["budget"]) == (unit, budget)]


def find_lead(unit: str, rows: Sequence[Row]) -> float:
    """The most that ``search`` is behind another agent at the same budget, in %."""
    lines = [line for big in (False, True) for line in summarize(rows, big) if line["unit"] == unit]
    leads = []
    for mine in group_by(lines, "model", "devices", "budget").values():
        ms = {line["arm"]: line["ms"] for line in mine}
        leads += [ms[SEARCH] / other - 1.0 for other in ms.values() if SEARCH in ms]
    return 100.0 * max(leads)


def list_large(rows: Sequence[Row]) -> list[Row]:
    """Medians on generated graphs, ms; - if no placement was found in time."""

    def describe(lines: list[Row]) -> str:
        return f"{lines[0]['ms']:.4g}".replace("inf", "-")

    lines = [line | {"run": f"{line['arm']}, {line['budget']:g} s"}
             for line in summarize(rows, generated=True)]  # fmt: skip
    lines.sort(key=lambda line: line["arm"])
    columns = {"graph": first("model"), **pivot(lines, "run", describe)}
    return tabulate(lines, ["model"], columns | {"bound": first("bound_ms", "{:.4g}")})


TABLES: Tables = {
    **{unit: partial(list_scores, unit) for unit in UNITS},
    "problems": list_problems,
    "large": list_large,
}


if __name__ == "__main__":
    run_benchmark(__doc__, {"all": (list_jobs, run)})
