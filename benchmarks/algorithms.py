"""Programs, dynamic programmes and baselines of "Efficient Algorithms for Device Placement".

    python benchmarks/algorithms.py --data DIR --rows rows.jsonl
    python benchmarks/algorithms.py --rows docs/results/algorithms-rows.jsonl   # its tables

DIR is a copy of dnn-partitioning, whose inputs state their devices. A second call does what the
file of rows lacks. Loads and latencies are computed again from the placement, infinite ones are of
placements that do not fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from math import floor
from pathlib import Path
from time import process_time

from common import Row, columns_of, combine, load_pipeline, make_parser, print_groups, run_missing

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import UserError
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.solvers.balance import balance_loads, find_start
from placement_gym.solvers.bounds import load_ms
from placement_gym.solvers.calls import greedy_fill
from placement_gym.solvers.partition import metis_partition
from placement_gym.solvers.pipelines.ideal_stages import BY_CUT
from placement_gym.solvers.pipelines.pipeline import exact_pipeline, linear_pipeline
from placement_gym.solvers.programs.max_load import max_load
from placement_gym.solvers.solution import Solution


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


THROUGHPUT: dict[str, Arm] = {
    "metis": place(metis_partition),
    "pipedream": place(partial(linear_pipeline, transfers=BY_CUT)),
    "dpl": place(linear_pipeline),
    "dp": place(exact_pipeline),
    "max-load, contiguous": partial(solve_max_load, contiguous=True),
    "balance": place(anneal),
    "max-load": partial(solve_max_load, contiguous=False),
}
LATENCY: dict[str, Arm] = {"greedy-fill": place(greedy_fill)}
ARMS = THROUGHPUT | LATENCY
TABLES = {"largest load, ms (bound)": THROUGHPUT, "latency, ms": LATENCY}


def describe(rows: list[Row]) -> str:
    """The value, with a bound or * if it is proven."""
    (row,) = rows
    if row.get("ms") is None:
        return "-"
    text = f"{row['ms']:.6g}"
    if "bound_ms" in row:
        text += " *" if row["proven"] else f" ({floor(row['bound_ms'] * 100) / 100:.6g})"
    return text


if __name__ == "__main__":
    main()
