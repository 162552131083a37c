"""Bounds of the largest load beside the best known one, on published inputs with more devices.

One CPU core and up to 15 accelerators with the published memory. The best load is that of the
exact pipeline where there are few ideals, of the linear one, of annealing from them, and of the
bound's program if it ends with a placement; the bound is searched below the others. Rows that
``--out`` has are not run again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from placement_gym.arrays import IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import PRESETS
from placement_gym.costs.workloads import Workload, make_devices
from placement_gym.errors import UserError
from placement_gym.problem import Problem
from placement_gym.solvers.balance import balance_loads
from placement_gym.solvers.bounds import lower_bound
from placement_gym.solvers.pipelines.pipeline import exact_pipeline, linear_pipeline

LOAD = PRESETS["tarnawski-throughput"]
FEW_IDEALS = 8_000
"""The exact pipeline of so many takes seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a copy of dnn-partitioning")
    parser.add_argument("--inputs", type=Path, nargs="*", help="its inputs (default: all)")
    parser.add_argument("--devices", default="2,4,6,8,12,16", help="how many (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="s a bound (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="of annealing (%(default)s)")
    parser.add_argument("--out", type=Path, help="JSON lines, one for each input and count")
    options = parser.parse_args()
    counts = [int(count) for count in options.devices.split(",")]
    inputs = options.inputs or sorted(options.data.glob("throughput-inputs/*/*.json"))
    rows = read_rows(options.out)
    for path, count in track([(path, count) for path in inputs for count in counts]):
        key = f"{path.parent.name}/{path.stem}", count
        if key not in rows:
            rows[key] = compare(path, count, options.seeds, options.time_limit)
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps({"input": key[0], "devices": count, **rows[key]}) + "\n")
    print_table(rows)


def read_rows(path: Path | None) -> dict[tuple[str, int], dict[str, Any]]:
    """Rows of earlier runs by input and number of devices."""
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["input"], row["devices"]): row for row in rows}


def compare(path: Path, count: int, n_seeds: int, time_limit_s: float) -> dict[str, float]:
    """The best load found, a bound of all placements, and the time that the bound took."""
    workload = Workload.load(path)
    devices = make_devices(1, count - 1, memory_bytes=workload.accelerator_bytes)
    costs, units = workload.costs(devices), workload.units()
    problem = Problem(units, devices, costs.units_supported(units), costs.memory_bytes)
    backend = SimulatedBackend(problem, costs, LOAD)
    starts = [linear_pipeline(problem, costs), *solve_few(problem, costs)]
    seeds = range(n_seeds)
    balanced = [balance_loads(problem, costs, one, seed) for one in starts for seed in seeds]
    best_ms = min(backend.evaluate(one).latency_ms for one in (*starts, *balanced))
    started = perf_counter()
    bound = lower_bound(problem, costs, LOAD, time_limit_s, best_ms)
    bound_s = perf_counter() - started
    if bound.assignment is not None:
        best_ms = min(best_ms, backend.evaluate(bound.assignment).latency_ms)
    return {"best_ms": best_ms, "bound_ms": bound.bound_ms, "bound_s": bound_s}


def solve_few(problem: Problem, costs: Any) -> list[IntArray]:
    """The exact pipeline, if it has few ideals."""
    try:
        return [exact_pipeline(problem, costs, FEW_IDEALS)]
    except UserError:
        return []


def print_table(rows: dict[tuple[str, int], dict[str, Any]]) -> None:
    counts = sorted({count for _, count in rows})
    table = Table("input", *(str(count) for count in counts), title="bound / best, by devices")
    for name in dict.fromkeys(name for name, _ in rows):
        shares = []
        for count in counts:
            row = rows.get((name, count))
            shares.append(f"{row['bound_ms'] / row['best_ms']:.3f}" if row else "")
        table.add_row(name, *shares)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
