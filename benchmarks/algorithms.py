"""Programs, dynamic programmes and baselines of "Efficient Algorithms for Device Placement".

    python benchmarks/algorithms.py --data DIR --rows rows.jsonl

DIR is a copy of dnn-partitioning, whose inputs state their devices. A second call does what the
file of rows lacks. Loads and latencies are computed again from the placement, infinite ones are of
placements that do not fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from math import floor
from pathlib import Path
from time import process_time

from common import Row, combine, describe_run, load_pipeline, make_parser, run_missing
from summaries import Tables, columns_of, describe_groups

from agents.solvers import search_loads
from placement_gym.base import IntArray, UserError
from placement_gym.bench.run import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import Solution, greedy_fill, load_ms, metis_partition
from placement_gym.solvers.pipelines import BY_CUT, exact_pipeline, linear_pipeline
from placement_gym.solvers.programs import max_load


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="one for each input and arm")
    parser.add_argument("--data", type=Path, required=True, help="a copy of dnn-partitioning")
    parser.add_argument("--time-limit", type=float, default=30.0, help="s a program (%(default)s)")
    options = parser.parse_args()
    paths = sorted(options.data.glob("*-inputs/*/*.json"))
    files = {"/".join(path.with_suffix("").parts[-3:]): path for path in paths}

    def run(input: str, arm: str) -> Row:
        return measure(files[input], arm, options.time_limit)

    jobs = [
        job
        for job in combine(input=files, arm=ARMS)
        if job["input"].startswith("latency") == (job["arm"] in LATENCY)
    ]
    run_missing(options.rows, jobs, run)


Arm = Callable[[Problem, CostTable, float], Solution | IntArray | None]


def measure(path: Path, arm: str, time_limit_s: float) -> Row:
    """Run an arm; its row has the value, a bound where there is one, and processor seconds."""
    stated = json.loads(path.read_text())
    latency = path.parents[1].name.startswith("latency")
    hosts, objective = (1, "latency") if latency else (int(stated["maxCPUs"]), "throughput")
    backend, about = load_pipeline(path, hosts, int(stated["maxFPGAs"]), objective)
    meter, error, bounded = BudgetedBackend(backend, 1), "", {}
    started = process_time()
    try:
        found = ARMS[arm](backend.problem, backend.costs, time_limit_s)
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


def place(solve: Callable[[Problem, CostTable], IntArray | None]) -> Arm:
    """An arm of a solver that has no time limit."""
    return lambda problem, costs, _: solve(problem, costs)


def solve_max_load(
    problem: Problem, costs: CostTable, time_limit_s: float, contiguous: bool
) -> Solution:
    start = linear_pipeline(problem, costs) if contiguous else search_loads(problem, costs)
    return max_load(problem, costs, start, load_ms(problem, costs), time_limit_s, contiguous)


THROUGHPUT: dict[str, Arm] = {
    "metis": place(metis_partition),
    "pipedream": place(partial(linear_pipeline, transfers=BY_CUT)),
    "dpl": place(linear_pipeline),
    "dp": place(exact_pipeline),
    "max-load, contiguous": partial(solve_max_load, contiguous=True),
    "search": place(search_loads),
    "max-load": partial(solve_max_load, contiguous=False),
}
LATENCY: dict[str, Arm] = {"greedy-fill": place(greedy_fill)}
ARMS = THROUGHPUT | LATENCY
SPECS = {"max-load, contiguous": AgentSpec("max-load", {"contiguous": True})}
"""Arms that are called otherwise than their agents."""


def list_values(latency: bool, rows: Sequence[Row]) -> list[Row]:
    """What each arm finds for each input, ms; also arms of former versions."""
    chosen = [
        row | {"input": row["input"].partition("/")[2]}
        for row in rows
        if (row["arm"] in LATENCY) == latency
    ]
    chosen.sort(key=lambda row: row["input"])
    return describe_groups(chosen, ("input",), columns_of(chosen, "arm", describe))


def describe(rows: list[Row]) -> str:
    """The value, with a bound or * if it is proven."""
    (row,) = rows
    if row.get("ms") is None:
        return "-"
    text = f"{row['ms']:.6g}"
    if "bound_ms" in row:
        text += " *" if row["proven"] else f" ({floor(row['bound_ms'] * 100) / 100:.6g})"
    return text


TABLES: Tables = {
    "load": partial(list_values, False),
    "latency": partial(list_values, True),
}
"""Objective -> a table in ms: in brackets a bound, * is a proven optimum."""


if __name__ == "__main__":
    main()
