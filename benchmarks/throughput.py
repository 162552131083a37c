"""Bounds of the largest load over the best known one, on published inputs with more devices.

    python benchmarks/throughput.py --data DIR --rows rows.jsonl

DIR is a copy of dnn-partitioning. One CPU core and up to 15 accelerators with the published memory.
The best load is that of the exact pipeline where there are few ideals, of the linear one, of the
search, and of the bound's program if it ends with a placement; the bound is searched below the
others. A second call does what the file of rows lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from pathlib import Path
from time import perf_counter

from common import Row, combine, describe_run, load_pipeline, make_parser, run_missing
from summaries import Tables, columns_of, describe_groups

from agents.solvers import search_loads
from placement_gym.base import IntArray, UserError
from placement_gym.bench.run import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.solvers import lower_bound
from placement_gym.solvers.pipelines import exact_pipeline, linear_pipeline

FEW_IDEALS = 8_000
"""The exact pipeline of so many takes seconds."""
MAX_PLACEMENTS = 4
"""That are compared: those of two pipelines, of the search and of the bound's program."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="one for each input and count")
    parser.add_argument("--data", type=Path, required=True, help="a copy of dnn-partitioning")
    parser.add_argument("--time-limit", type=float, default=60.0, help="s a bound (%(default)s)")
    options = parser.parse_args()
    paths = options.data.glob("throughput-inputs/*/*.json")
    files = {f"{path.parent.name}/{path.stem}": path for path in sorted(paths)}

    def compare(input: str, devices: int) -> Row:
        return find_bound(files[input], devices, options.time_limit)

    jobs = combine(input=files, devices=(2, 4, 6, 8, 12, 16))
    run_missing(options.rows, jobs, compare)


def find_bound(path: Path, count: int, time_limit_s: float) -> Row:
    """The best load found, a bound of all placements, and the time that the bound took."""
    backend, env = load_pipeline(path, 1, count - 1)
    problem, costs = backend.problem, backend.costs
    meter = BudgetedBackend(backend, MAX_PLACEMENTS)
    found = [linear_pipeline(problem, costs), *solve_few(problem, costs)]
    if (searched := search_loads(problem, costs)) is not None:
        found.append(searched)
    best_ms = min(meter.evaluate(one).latency_ms for one in found)
    started = perf_counter()
    bound = lower_bound(problem, costs, backend.semantics, time_limit_s, best_ms)
    bound_s = perf_counter() - started
    if bound.assignment is not None:
        best_ms = min(best_ms, meter.evaluate(bound.assignment).latency_ms)
    about = describe_run(env, AgentSpec("throughput:find_bound"), 0, MAX_PLACEMENTS, meter)
    return about | {"best_ms": best_ms, "bound_ms": bound.bound_ms, "bound_s": bound_s}


def solve_few(problem: Problem, costs: CostTable) -> list[IntArray]:
    """The exact pipeline, if it has few ideals."""
    try:
        return [exact_pipeline(problem, costs, FEW_IDEALS)]
    except UserError:
        return []


def list_bounds(rows: Sequence[Row]) -> list[Row]:
    """Bound / best of each input, rounded down, by the number of devices."""
    by_size = sorted(rows, key=lambda row: row["devices"])
    return describe_groups(rows, ("input",), columns_of(by_size, "devices", describe_ratio))


def describe_ratio(rows: list[Row]) -> str:
    return f"{floor(1e-6 + 1e3 * rows[0]['bound_ms'] / rows[0]['best_ms']) / 1e3:.3f}"


TABLES: Tables = {"bounds": list_bounds}
"""Name -> the table on the page."""


if __name__ == "__main__":
    main()
