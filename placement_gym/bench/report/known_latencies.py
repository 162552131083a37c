"""Latencies that a problem's results are compared with: devices alone, the optimum, a bound."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray, UserError, keep_if_possible, to_plain, write_text
from placement_gym.base.schemas import ReferencesFile, check, load_json
from placement_gym.bench import find_best_known, identify_row
from placement_gym.bench.run import BenchEnv, BenchEnvs, Json, Task, group_by
from placement_gym.solvers import ROUNDING, bounds, reaches
from placement_gym.version import VERSION

FILE = "references.json"
References = dict[str, dict[str, Any]]
"""Fields of ``ReferenceFields`` by model, costs and problem."""


@dataclass(frozen=True)
class KnownLatencies:
    """Latencies that a problem's results are compared with, in ms; None where unknown.

    Attributes:
        best_single_ms: The fastest device alone, its memory limit considered.
        optimum_ms: The proven optimum.
        bound_ms: A lower bound of all placements.
        best_known_ms: The best known value of the package.
        origin: Agent, commit and date of that value.
        elsewhere_ms: The best known value of the problem where finalists are scored again.
        one_device_holds_the_model: Whether some device may run the model alone, as far as is known;
            if none may, speed-ups over the best single device mean nothing.
    """

    best_single_ms: float | None = None
    optimum_ms: float | None = None
    bound_ms: float | None = None
    best_known_ms: float | None = None
    origin: str = ""
    elsewhere_ms: float | None = None
    one_device_holds_the_model: bool = True

    @property
    def named(self) -> dict[str, float]:
        """The values that tables show, by name; no bound if the optimum is proven."""
        values = {
            "best single device": self.best_single_ms,
            "proven optimum": self.optimum_ms,
            "best known": None if self.optimum_ms else self.best_known_ms,
            "lower bound": None if self.optimum_ms else self.bound_ms,
        }
        return {name: value for name, value in values.items() if value}

    def add_proof(self, best_ms: float) -> KnownLatencies:
        """Add an optimum if a placement's latency equals the bound but for rounding."""
        if self.optimum_ms or self.bound_ms is None or not reaches(best_ms, self.bound_ms):
            return self
        return replace(self, optimum_ms=best_ms)


def load_known_latencies(
    rows: Sequence[Json],
    tasks: Mapping[str, Task],
    folder: Path,
    envs: BenchEnvs,
    on_problem: Callable[[], None] = lambda: None,
) -> dict[str, KnownLatencies]:
    """Known latencies of each problem of rows corrected for drift.

    They are the best known values of the package, or are computed and kept in the folder.
    """
    path = folder / FILE
    references = load_references(path)
    known = find_recorded(rows)
    for problem, problem_rows in group_by("problem", rows).items():
        feasible_rows = [row for row in problem_rows if row["latency_ms"]]
        if problem not in known:
            env = reopen_env(tasks[problem], feasible_rows, envs)
            known[problem] = (
                compute_known(env, feasible_rows, problem, references) if env else KnownLatencies()
            )
        on_problem()
    if references:
        with keep_if_possible("optima and bounds"):
            write_text(path, json.dumps(to_plain(references), indent=1))
    return known


def find_recorded(rows: Sequence[Json]) -> dict[str, KnownLatencies]:
    """Look up the best known values of the problems of rows, where there are any."""
    known = {}
    placed = [row for row in rows if row["placement"]]
    for problem, own in group_by("problem", placed).items():
        # No value is that of several models or cost tables of one name.
        value = find_best_known(identify_row(own[0])) if len(find_fingerprints(own)) == 1 else None
        if value is None:
            continue
        score_on = own[0]["score_on"]
        elsewhere = find_best_known(identify_row(own[0], score_on)) if score_on else None
        known[problem] = KnownLatencies(
            best_single_ms=value.best_single_ms,
            optimum_ms=value.latency_ms if value.proven else None,
            bound_ms=value.bound_ms,
            best_known_ms=value.latency_ms,
            origin=value.origin,
            elsewhere_ms=elsewhere.latency_ms if elsewhere else None,
            one_device_holds_the_model=value.best_single_ms is not None,
        ).add_proof(min((row["latency_ms"] for row in own if row["latency_ms"]), default=np.inf))
    return known


def load_references(path: Path) -> References:
    """Load the bounds of a folder, with placements that solvers found."""
    if not path.is_file():
        return {}
    try:
        return check(ReferencesFile, load_json(path)).model_dump()
    except UserError as error:
        raise UserError(f"{path} is damaged, delete it to find them again: {error}") from error


def compute_known(
    bench_env: BenchEnv, rows: Sequence[Json], problem: str, references: References
) -> KnownLatencies:
    """Compute the known latencies of a problem; a new bound is added to ``references``."""
    alone, backend = bench_env.one_device_holds_the_model, bench_env.base.backend
    device_ms = median_device_ms(rows, "latency_ms", "speedup_vs_best_single") if alone else np.nan
    known = KnownLatencies(
        best_single_ms=None if np.isnan(device_ms) else device_ms, one_device_holds_the_model=alone
    )
    if not isinstance(backend, SimulatedBackend):  # a profile gives no bound
        return known
    known_ms, origin = [row["latency_ms"] for row in rows], bench_env.origin
    key = f"{origin['model_fingerprint']} {origin['costs_fingerprint']} {problem}"
    reference = references.get(key, {})
    # A bound of another version, or above the latency of a placement, is computed again.
    placed_ms = min(*known_ms, replay(backend, reference.get("placement")))
    bound_ms = reference.get("bound_ms") or 0.0
    if reference.get("version") != VERSION or placed_ms < bound_ms * (1.0 - ROUNDING):
        solved = bounds.lower_bound(
            backend.problem, backend.costs, backend.semantics, upper_ms=min(known_ms)
        )
        placement = None if solved.assignment is None else solved.assignment.tolist()
        placed_ms = min(*known_ms, replay(backend, placement))
        bound_ms = min(solved.bound_ms, placed_ms)
        references[key] = {"bound_ms": bound_ms, "placement": placement, "version": VERSION}
    return replace(known, bound_ms=bound_ms).add_proof(placed_ms)


def median_device_ms(rows: Sequence[Json], latency: str, speedup: str) -> float:
    """Median latency of the device that the speed-ups are relative to; nan without rows."""
    device_ms = [row[latency] * row[speedup] for row in rows if row[latency] and row[speedup]]
    return float(np.median(device_ms)) if device_ms else np.nan


def reopen_env(task: Task, rows: Sequence[Json], envs: BenchEnvs) -> BenchEnv | None:
    """Make the environment of rows with a latency; None if its model or costs have changed."""
    if not rows:
        return None
    try:
        bench_env = envs.get(task.env, task.make_kwargs)
    except (ValueError, OSError, RuntimeError):
        return None
    return bench_env if find_fingerprints(rows) == find_fingerprints([bench_env.origin]) else None


def find_fingerprints(rows: Sequence[Json]) -> set[tuple[str, str | None]]:
    return {(row["model_fingerprint"], row["costs_fingerprint"]) for row in rows}


def replay(backend: SimulatedBackend, placement: list[int] | None) -> float:
    """The latency in ms of a placement from a file or solver, infinite if it is not valid."""
    try:
        return np.inf if placement is None else evaluate_ms(backend, np.array(placement))
    except UserError:
        return np.inf


def evaluate_ms(backend: SimulatedBackend, assignment: IntArray) -> float:
    """The latency of (n_units,) device indices in ms without noise, infinite if infeasible."""
    if backend.infeasibility(assignment):
        return np.inf
    return backend.remeasure([assignment])[0].latency_ms
