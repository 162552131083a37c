"""What the latencies of a problem are compared with: devices alone, the optimum, a bound."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.bench.report.drift import by_problem, device_ms
from placement_gym.bench.report.optimum import TOLERANCE, optimum_or_bound
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.rows import Json
from placement_gym.bench.study.spec import Task
from placement_gym.bench.study.worker import cached_bench_env
from placement_gym.env import DevicePlacementEnv

REFERENCES = "references.json"


@dataclass(frozen=True)
class Reference:
    """What latencies of a problem are compared with, in ms; None where it is not known.

    Attributes:
        best_single_ms: The fastest device alone, memory considered.
        optimum_ms: Proven.
        bound_ms: No placement is below.
    """

    best_single_ms: float | None = None
    optimum_ms: float | None = None
    bound_ms: float | None = None

    def proven_by(self, latencies_ms: Sequence[float]) -> Reference:
        """With an optimum, if one of these latencies is no more than rounding above the bound."""
        least = min(latencies_ms, default=np.inf)
        if self.optimum_ms or not self.bound_ms or least > self.bound_ms * (1 + TOLERANCE):
            return self
        return replace(self, optimum_ms=least)


def references_of(
    rows: Sequence[Json],
    tasks: Mapping[str, Task],
    folder: Path,
    on_problem: Callable[[], None] = lambda: None,
) -> dict[str, Reference]:
    """The reference of each problem; optima and bounds are solved once and kept in the folder.

    Args:
        rows: In one frame.
        tasks: A task of each problem.
        folder: Where the results are.
        on_problem: Called after each problem.
    """
    path = folder / REFERENCES
    kept: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    references = {}
    for mine in by_problem(rows):
        problem, found = mine[0]["problem"], [row for row in mine if row["latency_ms"]]
        bench_env = bench_env_for(tasks[problem], found)
        references[problem] = reference_of(found, bench_env, kept) if bench_env else Reference()
        on_problem()
    written = path.with_suffix(".part")
    written.write_text(json.dumps(kept, indent=1))
    written.replace(path)
    return references


def reference_of(rows: Sequence[Json], bench_env: BenchEnv, kept: dict[str, Any]) -> Reference:
    """The reference of the problem that rows with a latency are about.

    Args:
        rows: In one frame.
        bench_env: Where they are from.
        kept: Optima and bounds that are known; a new one is added.
    """
    known_ms = [row["latency_ms"] for row in rows]
    row = rows[0]
    key = f"{row['model_fingerprint']} {row['costs_fingerprint']} {row['problem']}"
    if key not in kept:
        kept[key] = optimum_or_bound(bench_env.base, known_ms)
    alone = device_ms(rows, "latency_ms", "speedup_vs_best_single")
    single_ms = alone if one_device_holds(bench_env.base) else None
    return Reference(single_ms, **kept[key]).proven_by(known_ms)


def one_device_holds(env: DevicePlacementEnv) -> bool:
    """Whether a device may run the model alone."""
    problem = env.problem
    able = np.flatnonzero(problem.runs_all)
    return any(not env.backend.infeasibility(problem.single(int(device))) for device in able)


def bench_env_for(task: Task, rows: Sequence[Json]) -> BenchEnv | None:
    """The environment of runs with a latency; None if it cannot be made here, or is another now."""
    if not rows:
        return None
    try:
        bench_env = cached_bench_env(task.env, json.dumps(task.make_kwargs))
    except (ValueError, OSError, RuntimeError):
        return None
    same = bench_env.base.problem.units.graph.fingerprint() == rows[0]["model_fingerprint"]
    return bench_env if same else None
