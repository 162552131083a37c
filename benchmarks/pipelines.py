"""The exact pipeline on the inputs that Tarnawski et al. 2020 published.

Each input is solved in a process of its own. Seconds are of the processor unless they are wall
time, because other work on the machine changes them less. They leave out the start of Python,
reading the input and collecting its garbage, as does the memory. The inputs of latency have up to
eight CPU cores.
"""

from __future__ import annotations

import gc
import json
import resource
from pathlib import Path
from time import perf_counter, process_time

from common import Row, describe_run, load_pipeline, make_env, make_parser, run_apart, run_missing
from summaries import print_table

from placement_gym.bench.run import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.solvers.pipelines import Forward, exact_pipeline
from placement_gym.solvers.pipelines.forward import merge_leaves
from placement_gym.solvers.pipelines.ideals import enumerate_ideals


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="one for each input")
    parser.add_argument("--data", type=Path, help="a copy of dnn-partitioning")
    options = parser.parse_args()
    paths = sorted(options.data.glob("*-inputs/*/*.json")) if options.data else []
    files = {name_input(path): path for path in paths}
    rows = run_missing(
        options.rows,
        ({"input": name} for name in files),
        lambda input: run_apart(solve, files[input]),
    )
    print_table(map(describe, rows), "largest load of the best contiguous split")


def name_input(path: Path) -> str:
    """Objective, level and name of an input."""
    kind, level = path.parents[1].name.removesuffix("-inputs"), path.parent.name.lower()
    return f"{kind} {level.removesuffix('graphs')} {path.stem}"


def describe(row: Row) -> Row:
    """The line of an input."""
    return {
        "input": row["input"],
        "nodes": row["nodes"],
        "ideals": row["ideals"],
        "load ms": f"{row['latency_ms']:.6g}",
        "s": f"{row['cpu_s']:.3f}",
        "wall s": f"{row['wall_s']:.3f}",
        "MB": f"{row['peak_mb']:.0f}",
    }


def solve(path: Path) -> Row:
    """Solve in this process; the row has the load in ms, seconds, and the peak of memory in MB."""
    stated = json.loads(path.read_text())
    backend, about = load_pipeline(path, int(stated["maxCPUs"]), int(stated["maxFPGAs"]))
    problem, costs = backend.problem, backend.costs
    warm_up()
    base_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gc.collect()
    gc.freeze()
    started, cpu_started = perf_counter(), process_time()
    assignment = exact_pipeline(problem, costs)
    cpu_s, wall_s = process_time() - cpu_started, perf_counter() - started
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    meter = BudgetedBackend(backend, 1)
    assert not meter.evaluate(assignment).error
    merged, _ = merge_leaves(Forward.of(problem.units), problem, costs)
    return describe_run(about, AgentSpec("dp"), 0, 1, meter) | {
        "cpu_s": round(cpu_s, 4),
        "wall_s": round(wall_s, 4),
        "peak_mb": (peak_kb - base_kb) / 1e3,
        "nodes": len(merged),
        "ideals": len(enumerate_ideals(merged)),
    }


def warm_up() -> None:
    """Load the compiled kernels by solving a small graph."""
    throughput = {"objective": "throughput", "schedule": "tarnawski-throughput"}
    env = make_env("synthetic-layered-16", **throughput)
    exact_pipeline(env.problem, env.cost_table())


if __name__ == "__main__":
    main()
