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
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

from common import Row, load_pipeline, make_env, make_parser, print_table, run_apart
from rich.progress import track

from placement_gym.solvers.pipelines.forward import Forward, merge_leaves
from placement_gym.solvers.pipelines.ideals import enumerate_ideals
from placement_gym.solvers.pipelines.pipeline import exact_pipeline


@dataclass(frozen=True)
class Run:
    """One solution: its largest load in ms, seconds, and the peak of memory in MB."""

    load_ms: float
    cpu_s: float
    wall_s: float
    peak_mb: float
    nodes: int = 0
    ideals: int = 0


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a copy of dnn-partitioning")
    options = parser.parse_args()
    inputs = sorted(options.data.glob("*-inputs/*/*.json"))
    lines = [describe(path, run_apart(solve, path)) for path in track(inputs, "inputs")]
    print_table(lines, "largest load of the best contiguous split")


def describe(path: Path, run: Run) -> Row:
    """The line of an input."""
    kind, level = path.parents[1].name.removesuffix("-inputs"), path.parent.name.lower()
    return {
        "input": f"{kind} {level.removesuffix('graphs')} {path.stem}",
        "nodes": run.nodes,
        "ideals": run.ideals,
        "load ms": f"{run.load_ms:.6g}",
        "s": f"{run.cpu_s:.3f}",
        "wall s": f"{run.wall_s:.3f}",
        "MB": f"{run.peak_mb:.0f}",
    }


def solve(path: Path) -> Run:
    """Solve in this process."""
    stated = json.loads(path.read_text())
    backend = load_pipeline(path, int(stated["maxCPUs"]), int(stated["maxFPGAs"]))
    problem, costs = backend.problem, backend.costs
    warm_up()
    base_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gc.collect()
    gc.freeze()
    started, cpu_started = perf_counter(), process_time()
    assignment = exact_pipeline(problem, costs)
    cpu_s, wall_s = process_time() - cpu_started, perf_counter() - started
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not problem.infeasibility(assignment)
    merged, _ = merge_leaves(Forward.of(problem.units), problem, costs)
    return Run(
        load_ms=backend.evaluate(assignment).latency_ms,
        cpu_s=cpu_s,
        wall_s=wall_s,
        peak_mb=(peak_kb - base_kb) / 1e3,
        nodes=len(merged),
        ideals=len(enumerate_ideals(merged)),
    )


def warm_up() -> None:
    """Load the compiled kernels by solving a small graph."""
    throughput = {"objective": "throughput", "schedule": "tarnawski-throughput"}
    env = make_env("synthetic-layered-16", **throughput)
    exact_pipeline(env.problem, env.cost_table())


if __name__ == "__main__":
    main()
