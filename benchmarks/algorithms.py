"""Programs, dynamic programmes and baselines of "Efficient Algorithms for Device Placement".

    python benchmarks/algorithms.py --data DIR --rows rows.jsonl
    python benchmarks/algorithms.py --rows docs/results/algorithms-rows.jsonl   # its tables

DIR is a copy of dnn-partitioning, whose inputs state their devices. A second call does what the
file of rows lacks. Loads and latencies are computed again from the placement, infinite ones are of
placements that do not fit. Only variants of the dynamic programme have loads of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import floor
from pathlib import Path
from time import process_time

import numpy as np
from common import (
    Row,
    columns_of,
    combine,
    load_pipeline,
    make_parser,
    print_groups,
    run_missing,
)

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.balance import balance_loads, find_start
from placement_gym.solvers.bounds import load_ms
from placement_gym.solvers.calls import call_program, greedy_fill
from placement_gym.solvers.partition import metis_partition
from placement_gym.solvers.pipelines.clusters import clustered_pipeline, region_costs
from placement_gym.solvers.pipelines.contiguous import SplitSearch
from placement_gym.solvers.pipelines.forward import Forward, merge_leaves
from placement_gym.solvers.pipelines.ideal_stages import ADDED, BY_CUT, OVERLAPPED
from placement_gym.solvers.pipelines.ideals import TooManyIdealsError, enumerate_ideals
from placement_gym.solvers.pipelines.maxima import separate_pipeline
from placement_gym.solvers.pipelines.pipeline import (
    exact_pipeline,
    find_exact,
    find_largest_load_ms,
    find_linear,
    linear_pipeline,
    narrow,
    replicated_pipeline,
)
from placement_gym.solvers.programs.max_load import max_load
from placement_gym.solvers.solution import Solution

FEW_IDEALS, FEW_CUTS = 8_000, 1_000
"""Ideals up to which variants are exact, and clusters, where each needs a dynamic programme."""
SYNC_MS = 1e3 / 12e9
"""Of a byte of weights between copies of a stage that is trained, at 12 GB/s."""
IN_CLUSTERS, SLOWER = 6, 4.0
"""Accelerators of inputs for two clusters, and how many times slower links between these are."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="one for each input and arm")
    parser.add_argument("--data", type=Path, help="a copy of dnn-partitioning")
    parser.add_argument("--time-limit", type=float, default=30.0, help="s a program (%(default)s)")
    options = parser.parse_args()
    paths = sorted(options.data.glob("*-inputs/*/*.json")) if options.data else []
    files = {"/".join(path.with_suffix("").parts[-3:]): path for path in paths}

    def run(input: str, arm: str) -> Row:
        return measure(files[input], ARMS[arm], options.time_limit)

    jobs = [
        job
        for job in combine(input=files, arm=ARMS)
        if job["input"].startswith("latency") == (job["arm"] in LATENCY)
        and (job["arm"] not in CLUSTERS or in_clusters(files[job["input"]]))
    ]
    rows = run_missing(options.rows, jobs, run)
    for title, arms in TABLES.items():
        chosen = [row for arm in arms for row in rows if row["arm"] == arm]
        chosen.sort(key=lambda row: row["input"])
        print_groups(chosen, ("input",), columns_of(chosen, "arm", describe), title)


Arm = Callable[[SimulatedBackend, float], Row]


def measure(path: Path, arm: Arm, time_limit_s: float) -> Row:
    """Run an arm; returns its value, which may be a bound, too, and processor seconds."""
    stated = json.loads(path.read_text())
    latency = path.parents[1].name.startswith("latency")
    hosts = 1 if latency else int(stated["maxCPUs"])
    backend = load_pipeline(path, hosts, int(stated["maxFPGAs"]))
    if latency:
        semantics = PRESETS["tarnawski-latency"]
        backend = SimulatedBackend(backend.problem, backend.costs, semantics)
    started = process_time()
    try:
        found = arm(backend, time_limit_s)
    except UserError as error:
        found = {"error": str(error)}
    return found | {"cpu_s": round(process_time() - started, 3)}


def place(solve: Callable[[Problem, CostTable], IntArray]) -> Arm:
    """An arm of a solver that returns a placement."""
    return lambda backend, _: score(backend, solve(backend.problem, backend.costs))


def score(backend: SimulatedBackend, assignment: IntArray | None) -> Row:
    if assignment is None or backend.problem.infeasibility(assignment):
        return {"ms": None}
    return {"ms": backend.evaluate(assignment).latency_ms}


def score_solution(backend: SimulatedBackend, found: Solution) -> Row:
    bounded = {"bound_ms": found.bound_ms, "proven": found.proven}
    return score(backend, found.assignment) | bounded


def solve_max_load(backend: SimulatedBackend, time_limit_s: float, contiguous: bool) -> Row:
    problem, costs = backend.problem, backend.costs
    start = linear_pipeline(problem, costs) if contiguous else anneal(problem, costs)
    lower_ms = load_ms(problem, costs)
    found = max_load(problem, costs, start, lower_ms, time_limit_s, contiguous)
    return score_solution(backend, found)


def anneal(problem: Problem, costs: CostTable) -> IntArray:
    return balance_loads(problem, costs, find_start(problem, costs))


def solve_calls(backend: SimulatedBackend, time_limit_s: float, n_calls: int) -> Row:
    """With several calls from the placement with one."""
    problem, costs = backend.problem, backend.costs
    start = greedy_fill(problem, costs)
    for most in sorted({1, n_calls}):
        found = call_program(problem, costs, start, backend.schedule, time_limit_s, most)
        start = start if found.assignment is None else found.assignment
    return score_solution(backend, found)


def vary(backend: SimulatedBackend, _: float, transfers: int, replicated: bool = False) -> Row:
    """The load of a variant's own split, in its own model."""
    problem, costs = backend.problem, backend.costs
    linear = is_wide(problem, costs)
    if replicated:
        sync_ms = SYNC_MS * ("Backward" in problem.units.graph.types)
        split = replicated_pipeline(problem, costs, sync_ms, transfers, linear)
        copies = [len(stage) for stage in split.stages]
        return {"ms": split.load_ms, "linear": linear, "copies": copies}
    search = SplitSearch(problem, costs, transfers=transfers)
    found = narrow(search, find_linear if linear else find_exact)
    return {"ms": found.load_ms, "linear": linear}


def separate(backend: SimulatedBackend, _: float) -> Row:
    """The largest forward load and the largest backward load of the best split for that."""
    problem, costs = backend.problem, backend.costs
    linear = is_wide(problem, costs)
    return {"ms": separate_pipeline(problem, costs, linear).load_ms, "linear": linear}


def in_clusters(path: Path) -> bool:
    return bool(json.loads(path.read_text())["maxFPGAs"] == IN_CLUSTERS)


def split_clusters(backend: SimulatedBackend, _: float, aware: bool) -> Row:
    """The load in two clusters, the host in the first; of the split for equal links if not aware.

    That takes the devices in its order, from either end.
    """
    problem, costs = backend.problem, backend.costs
    cluster = (np.cumsum(~costs.host) > IN_CLUSTERS // 2).astype(np.int64)
    apart = cluster[:, None] != cluster
    slow = replace(costs, link_ms_per_size=costs.link_ms_per_size * np.where(apart, SLOWER, 1.0))
    linear = is_wide(problem, costs, FEW_CUTS)
    if aware:
        return {"ms": clustered_pipeline(problem, slow, cluster, linear).load_ms, "linear": linear}
    found = narrow(SplitSearch(problem, costs), find_linear if linear else find_exact)
    stages = [device for (device,) in found.stages if not costs.host[device]]
    loads = []
    for order in (stages, stages[::-1]):
        moved = np.arange(len(problem.devices))
        moved[order] = np.flatnonzero(~costs.host)[: len(order)]
        device = moved[found.device]
        known = region_costs(problem, slow, cluster, cluster[device])
        loads.append(find_largest_load_ms(problem, known, device))
    return {"ms": min(loads), "linear": linear}


def is_wide(problem: Problem, costs: CostTable, few: int = FEW_IDEALS) -> bool:
    """Whether there are so many ideals that variants are split along one order."""
    try:
        merged, _ = merge_leaves(Forward.of(problem.units), problem, costs)
        enumerate_ideals(merged, few)
    except TooManyIdealsError:
        return True
    return False


THROUGHPUT: dict[str, Arm] = {
    "metis": place(metis_partition),
    "pipedream": place(partial(linear_pipeline, transfers=BY_CUT)),
    "dpl": place(linear_pipeline),
    "dp": place(exact_pipeline),
    "max-load, contiguous": partial(solve_max_load, contiguous=True),
    "balance": place(anneal),
    "max-load": partial(solve_max_load, contiguous=False),
}
VARIANTS: dict[str, Arm] = {
    "one after the other": partial(vary, transfers=ADDED),
    "overlapped": partial(vary, transfers=OVERLAPPED),
    "forward, then backward": separate,
    "replicated": partial(vary, transfers=ADDED, replicated=True),
    "overlapped, replicated": partial(vary, transfers=OVERLAPPED, replicated=True),
}
CLUSTERS: dict[str, Arm] = {
    "split for equal links": partial(split_clusters, aware=False),
    "split for clusters": partial(split_clusters, aware=True),
}
LATENCY: dict[str, Arm] = {
    "greedy-fill": place(greedy_fill),
    "one call": partial(solve_calls, n_calls=1),
    "two calls": partial(solve_calls, n_calls=2),
    "three calls": partial(solve_calls, n_calls=3),
}
ARMS = THROUGHPUT | VARIANTS | CLUSTERS | LATENCY
TABLES = {
    "largest load, ms (bound)": THROUGHPUT,
    "largest load of variants of the DP, each in its own model, ms": VARIANTS,
    "largest load in two clusters, ms": CLUSTERS,
    "latency, ms (bound for so many calls)": LATENCY,
}


def describe(rows: list[Row]) -> str:
    """The value, with a bound or * if it is proven, copies of stages, and ~ for one order."""
    (row,) = rows
    if row.get("ms") is None:
        return "-"
    text = f"{row['ms']:.6g}"
    if "bound_ms" in row:
        text += " *" if row["proven"] else f" ({floor(row['bound_ms'] * 100) / 100:.6g})"
    text += f" ({'+'.join(map(str, row['copies']))})" if "copies" in row else ""
    return text + " ~" * row.get("linear", False)


if __name__ == "__main__":
    main()
