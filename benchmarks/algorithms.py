"""Programs, dynamic programmes and baselines of "Efficient Algorithms for Device Placement".

    python benchmarks/algorithms.py solvers --rows rows.jsonl
    python benchmarks/algorithms.py bounds --rows bounds.jsonl

Inputs of dnn-partitioning state their devices. ``bounds`` compares the largest load with its bound,
on one CPU core and up to 15 accelerators with the published memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import floor
from time import perf_counter, process_time

import numpy as np
from common import PARTITIONING, Row, combine, describe_run, load_pipeline, run_benchmark
from summaries import Tables, first, pivot, tabulate

from agents.solvers import search_loads
from placement_gym.base import IntArray, UserError
from placement_gym.bench.run import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import Solution, load_ms, lower_bound, metis_partition
from placement_gym.solvers.pipelines import BY_CUT, exact_pipeline, linear_pipeline
from placement_gym.solvers.programs import max_load

TIME_LIMIT_S, BOUND_LIMIT_S = 15.0, 60.0
"""Of a program, and of a bound."""
FEW_IDEALS = 8_000
"""Ideals up to which the exact pipeline takes seconds."""
MAX_PLACEMENTS = 4
"""Placements that a bound is compared with: two pipelines', the search's and the bound's."""
OF_THROUGHPUT = "throughput-inputs/"
CLOSED = 0.99
"""Bound / best known of problems that are nearly solved."""
Arm = Callable[[Problem, CostTable], Solution | IntArray | None]


def list_inputs() -> list[str]:
    folder = PARTITIONING / OF_THROUGHPUT
    return [f"{file.parent.name}/{file.stem}" for file in sorted(folder.rglob("*.json"))]


def list_solvers() -> Iterator[Row]:
    return combine(input=(f"{OF_THROUGHPUT}{name}" for name in list_inputs()), arm=ARMS)


def run(input: str, arm: str) -> Row:
    """Run an arm; its row has the value, a bound if there is one, and CPU seconds."""
    path = PARTITIONING / f"{input}.json"
    stated = json.loads(path.read_text())
    backend, about = load_pipeline(path, int(stated["maxCPUs"]), int(stated["maxFPGAs"]))
    meter, error, bounded = BudgetedBackend(backend, 1), "", {}
    started = process_time()
    try:
        found = ARMS[arm](backend.problem, backend.costs)
    except UserError as refused:
        found, error = None, str(refused)
    cpu_s = round(process_time() - started, 3)
    if isinstance(found, Solution):
        bounded = {"bound_ms": found.bound_ms, "proven": found.proven}
        found = found.assignment
    if found is not None:
        meter.evaluate(found)
    row = describe_run(about, SPECS.get(arm, AgentSpec(arm)), 0, 1, meter)
    return row | bounded | {"ms": row["latency_ms"], "error": error or row["error"], "cpu_s": cpu_s}


def solve_max_load(contiguous: bool, problem: Problem, costs: CostTable) -> Solution:
    start = linear_pipeline(problem, costs) if contiguous else search_loads(problem, costs)
    return max_load(problem, costs, start, load_ms(problem, costs), TIME_LIMIT_S, contiguous)


ARMS: dict[str, Arm] = {
    "metis": metis_partition,
    "pipedream": partial(linear_pipeline, transfers=BY_CUT),
    "dpl": linear_pipeline,
    "dp": exact_pipeline,
    "max-load, contiguous": partial(solve_max_load, True),
    "search": search_loads,
    "max-load": partial(solve_max_load, False),
}
SPECS = {"max-load, contiguous": AgentSpec("max-load", {"contiguous": True})}
"""Arms whose names are not their agents'."""


def list_bound_jobs() -> Iterator[Row]:
    return combine(input=list_inputs(), devices=(2, 4, 6, 8, 12, 16))


def find_bound(input: str, devices: int) -> Row:
    """Find the best load and a bound, and time the bound."""
    path = PARTITIONING / f"{OF_THROUGHPUT}{input}.json"
    backend, env = load_pipeline(path, 1, devices - 1)
    problem, costs = backend.problem, backend.costs
    meter = BudgetedBackend(backend, MAX_PLACEMENTS)
    found = [linear_pipeline(problem, costs)]
    with suppress(UserError):  # it has more ideals
        found.append(exact_pipeline(problem, costs, FEW_IDEALS))
    if (searched := search_loads(problem, costs)) is not None:
        found.append(searched)
    best_ms = min(meter.evaluate(one).latency_ms for one in found)
    started = perf_counter()
    bound = lower_bound(problem, costs, backend.semantics, BOUND_LIMIT_S, best_ms)
    bound_s = perf_counter() - started
    if bound.assignment is not None:
        best_ms = min(best_ms, meter.evaluate(bound.assignment).latency_ms)
    about = describe_run(env, AgentSpec("algorithms:find_bound"), 0, MAX_PLACEMENTS, meter)
    return about | {"best_ms": best_ms, "bound_ms": bound.bound_ms, "bound_s": bound_s}


def list_loads(rows: Sequence[Row]) -> list[Row]:
    """The result of each arm on each input, ms."""
    chosen = [
        row | {"input": row["input"].removeprefix(OF_THROUGHPUT)}
        for row in rows
        if row["input"].startswith(OF_THROUGHPUT)
    ]
    chosen.sort(key=lambda row: row["input"])
    return tabulate(chosen, ["input"], {"input": first("input"), **pivot(chosen, "arm", describe)})


def describe(rows: list[Row]) -> str:
    """The value, with its bound in brackets, or * if it is proven."""
    (row,) = rows
    if row.get("ms") is None:
        return "-"
    text = f"{row['ms']:.6g}"
    if "bound_ms" in row:
        text += " *" if row["proven"] else f" ({floor(row['bound_ms'] * 100) / 100:.6g})"
    return text


def summarize_bounds(rows: Sequence[Row]) -> str:
    ratios = np.array([row["bound_ms"] / row["best_ms"] for row in rows])
    return (
        f"Over {len(rows)} pairs of an input and a number of devices, the geometric mean of bound "
        f"/ best known is {np.exp(np.log(ratios).mean()):.3f}, the least "
        f"{floor(1e3 * ratios.min()) / 1e3:.3f} (rounded down); {(ratios > CLOSED).sum()} are "
        "within one per cent."
    )


TABLES: Tables = {"load": list_loads}


if __name__ == "__main__":
    run_benchmark(__doc__, {"solvers": (list_solvers, run),
                            "bounds": (list_bound_jobs, find_bound)})  # fmt: skip
