"""The exact pipeline beside the publication's program, on each of its inputs.

The program is compiled from the user's copy of dnn-partitioning with ``g++ -O3``. It and ours solve
each input one after the other, each with one thread in a process of its own; then ours with two.
Seconds are of the processor unless they are wall time, because other work on the machine changes
them less. Theirs are those of the whole program; ours leave out reading the input and the start of
Python, as does our memory. The inputs of latency have up to eight CPU cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, sleep

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import PRESETS
from placement_gym.costs.workloads import Workload, make_devices
from placement_gym.problem import Problem
from placement_gym.progress import progress_bar
from placement_gym.solvers.forward import Forward
from placement_gym.solvers.pipelines.ideals import enumerate_ideals
from placement_gym.solvers.pipelines.leaves import merge_leaves
from placement_gym.solvers.pipelines.pipeline import exact_pipeline

COLUMNS = (
    *("input", "nodes", "ideals", "load", "theirs"),
    *("s", "theirs", "ratio", "wall s", "theirs", "2 threads", "MB", "theirs"),
)


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a copy of dnn-partitioning")
    parser.add_argument("--inputs", type=Path, nargs="*", help="its inputs (default: all)")
    parser.add_argument("--counts", help="CPU cores and accelerators, as in 1,6, for all inputs")
    parser.add_argument("--time-limit", type=int, default=120, help="s of CPU (%(default)s)")
    parser.add_argument("--solve", type=Path, help="solve one input and print what it took")
    parser.add_argument("--threads", type=int, default=1, help="with --solve (%(default)s)")
    options = parser.parse_args()
    if options.solve is not None:
        print(json.dumps(solve(options.solve, options.threads).__dict__))
    elif options.data is None:
        parser.error("--data is required")
    else:
        inputs = options.inputs or sorted(options.data.glob("*-inputs/*/*.json"))
        with tempfile.TemporaryDirectory() as folder:
            program = compile_published(options.data, Path(folder))
            if options.counts:
                inputs = [change_counts(path, options.counts, Path(folder)) for path in inputs]
            compare(inputs, program, options.time_limit)


def compile_published(data: Path, folder: Path) -> Path | None:
    """Compile the publication's program; says why if that is impossible."""
    source, program = data / "throughput-dp" / "dp.cpp", folder / "dp"
    if not source.exists() or shutil.which("g++") is None:
        print(f"without the publication's program: {source} and g++ are needed", file=sys.stderr)
        return None
    command = ["g++", "-O3", "-std=c++17", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def change_counts(path: Path, counts: str, folder: Path) -> Path:
    """Write the input with other numbers of devices."""
    values = json.loads(path.read_text())
    values["maxCPUs"], values["maxFPGAs"] = map(int, counts.split(","))
    changed = folder / path.parents[1].name / path.parent.name / path.name
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text(json.dumps(values))
    return changed


def compare(inputs: list[Path], program: Path | None, time_limit_s: int) -> None:
    """Print a row of a Markdown table for each input."""
    print("largest load in ms of the best contiguous split")
    for row in (COLUMNS, ["---"] * len(COLUMNS)):
        print("|", " | ".join(row), "|")
    for path in inputs:
        ours = solve_apart(path, 1)
        theirs = run_published(program, path, time_limit_s) if program else None
        row = describe(path, ours, theirs, solve_apart(path, 2))
        print("|", " | ".join(row), "|", flush=True)


def describe(path: Path, ours: Run, theirs: Run | None, both: Run) -> list[str]:
    """Cells of a row; a program that was stopped has only its limit."""
    kind, level = path.parents[1].name.removesuffix("-inputs"), path.parent.name.lower()
    row = [f"{kind} {level.removesuffix('graphs')} {path.stem}"]
    row += [str(ours.nodes), str(ours.ideals), f"{ours.load_ms:.6g}"]
    if theirs is None:
        theirs = Run(*[float("nan")] * 4)
    sign = "" if theirs.load_ms < float("inf") else ">"
    ratio = f"{sign}{theirs.cpu_s / ours.cpu_s:.1f}"
    row += [f"{theirs.load_ms:.6g}", f"{ours.cpu_s:.3f}", f"{sign}{theirs.cpu_s:.2f}", ratio]
    row += [f"{ours.wall_s:.3f}", f"{sign}{theirs.wall_s:.2f}", f"{both.wall_s:.3f}"]
    return [*row, f"{ours.peak_mb:.0f}", f"{sign}{theirs.peak_mb:.0f}"]


def run_published(program: Path, path: Path, time_limit_s: int) -> Run:
    """Run the publication's program; the load is infinite if it was stopped."""
    started, peak_kb = perf_counter(), 0
    with path.open() as source, tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [program], stdin=source, stdout=output, stderr=subprocess.DEVNULL
        )
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (time_limit_s, time_limit_s))
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            peak_kb = max(peak_kb, read_peak_kb(process.pid))
            sleep(0.001 if perf_counter() - started < 1.0 else 0.05)
        _, status, usage = ended
        wall_s = perf_counter() - started
        output.seek(0)
        load_ms = float("inf") if status else json.load(output)["maxLoad"]
    return Run(load_ms, usage.ru_utime + usage.ru_stime, wall_s, peak_kb / 1e3)


def read_peak_kb(process: int) -> int:
    """Peak of a process's memory so far; what ``wait4`` returns includes that of its parent."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) if found else 0


def solve_apart(path: Path, threads: int) -> Run:
    """Solve in a process of its own."""
    command = [sys.executable, __file__, "--solve", str(path), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Run(**json.loads(done.stdout))


def solve(path: Path, threads: int) -> Run:
    """Solve in this process."""
    backend = load_backend(path)
    problem, costs = backend.problem, backend.costs
    warm_up()
    base_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with progress_bar(None, "ideals", quiet=not sys.stderr.isatty()) as progress:

        def show(done: int, total: int) -> None:
            progress.update(progress.task_ids[0], completed=done, total=total)

        started, cpu_started = perf_counter(), process_time()
        assignment = exact_pipeline(problem, costs, threads=threads, report=show)
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
