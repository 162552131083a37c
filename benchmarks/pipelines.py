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

from common import Row, make_parser, print_table, run_apart
from rich.progress import track

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.hardware.device_requests import make_devices
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.costs.workloads import Workload
from placement_gym.problem.problem import Problem
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
    backend = load_backend(path)
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


def load_backend(path: Path) -> SimulatedBackend:
    """The input's graph on the numbers of CPU cores and accelerators that it states."""
    workload = Workload.load(path)
    n_hosts = int(json.loads(path.read_text())["maxCPUs"])
    limit = {"memory_bytes": workload.accelerator_bytes}
    devices = make_devices(n_hosts, workload.n_accelerators, **limit)
    units, costs = workload.units(), workload.costs(devices)
    problem = Problem(units, devices, costs.units_supported(units), costs.memory_bytes)
    return SimulatedBackend(problem, costs, PRESETS["tarnawski-throughput"])


def warm_up() -> None:
    """Load the compiled kernels by solving a graph of two nodes."""
    node = {"supportedOnFpga": 1, "cpuLatency": 2.0, "fpgaLatency": 1.0, "size": 1}
    values = {
        "maxFPGAs": 1,
        "maxSizePerFPGA": 10,
        "nodes": [{"id": number, "isBackwardNode": 0, **node} for number in (1, 2)],
        "edges": [{"sourceId": 1, "destId": 2, "cost": 1.0}],
    }
    workload = Workload.of(values, "two nodes")
    units, costs = workload.units(), workload.costs(workload.devices())
    problem = Problem(units, workload.devices(), costs.units_supported(units), costs.memory_bytes)
    exact_pipeline(problem, costs)


if __name__ == "__main__":
    main()
