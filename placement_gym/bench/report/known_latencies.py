"""Latencies to compare results of a problem with: devices alone, the optimum, a bound."""

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
from placement_gym.bench.known import BestKnown, find_best_known, identify, identify_row
from placement_gym.bench.report.drift import median_device_ms
from placement_gym.bench.run import BenchEnv, BenchEnvs, Json, group_by
from placement_gym.bench.study import Task
from placement_gym.envs import DevicePlacementEnv
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
        best_known_ms: The best known value that is kept with the package.
        origin: Who found that value, from which commit and when.
        elsewhere_ms: The best known value of the problem where finalists are scored a second time.
        one_device_holds_the_model: Whether some device may run the model alone, as far as is known.
            Where none may, speed-ups over the best single device are penalties that mean nothing.
    """

    best_single_ms: float | None = None
    optimum_ms: float | None = None
    bound_ms: float | None = None
    best_known_ms: float | None = None
    origin: str = ""
    elsewhere_ms: float | None = None
    one_device_holds_the_model: bool = True

    @classmethod
    def of(cls, value: BestKnown) -> KnownLatencies:
        """Return the latencies of a best known value."""
        return cls(
            best_single_ms=value.best_single_ms,
            optimum_ms=value.latency_ms if value.proven else None,
            bound_ms=value.bound_ms,
            best_known_ms=value.latency_ms,
            origin=value.origin,
            one_device_holds_the_model=value.best_single_ms is not None,
        )

    @property
    def named(self) -> dict[str, float]:
        """The values that tables show, by name; the bound only where no optimum is proven."""
        values = {
            "best single device": self.best_single_ms,
            "proven optimum": self.optimum_ms,
            "best known": None if self.optimum_ms else self.best_known_ms,
            "bound below all placements": None if self.optimum_ms else self.bound_ms,
        }
        return {name: value for name, value in values.items() if value}

    def add_proof(self, latencies_ms: Sequence[float]) -> KnownLatencies:
        """Add an optimum, if one of these latencies exceeds the bound by no more than rounding."""
        best_ms = min(latencies_ms, default=np.inf)
        if self.optimum_ms is not None or self.bound_ms is None:
            return self
        if not reaches(best_ms, self.bound_ms):
            return self
        return replace(self, optimum_ms=best_ms)


def find_known_latencies(bench_env: BenchEnv, rows: Sequence[Json]) -> KnownLatencies:
    """The known latencies of the problem that corrected rows belong to."""
    value = find_best_known(identify(bench_env.base.backend))
    return KnownLatencies.of(value) if value else _compute_known(bench_env, rows, "", {})


def load_known_latencies(
    rows: Sequence[Json],
    tasks: Mapping[str, Task],
    folder: Path,
    envs: BenchEnvs,
    on_problem: Callable[[], None] = lambda: None,
) -> dict[str, KnownLatencies]:
    """The known latencies of each problem of rows that are corrected for drift.

    They come from the best known values of the package, or are computed and kept in the folder.
    """
    path = folder / FILE
    references = load_references(path)
    known = find_recorded(rows)
    for problem, problem_rows in group_by("problem", rows).items():
        feasible_rows = [row for row in problem_rows if row["latency_ms"]]
        if problem not in known:
            env = reopen_env(tasks[problem], feasible_rows, envs)
            known[problem] = (
                _compute_known(env, feasible_rows, problem, references) if env else KnownLatencies()
            )
        on_problem()
    if not references:
        return known
    with keep_if_possible("optima and bounds"):
        write_text(path, json.dumps(to_plain(references), indent=1))
    return known


def find_recorded(rows: Sequence[Json]) -> dict[str, KnownLatencies]:
    """Look up the best known values of the problems of rows.

    Problems that have none are left out, and so are those whose rows belong to several models or
    cost tables of the same name: no value is that of all of them.
    """
    known = {}
    placed_rows = [row for row in rows if row["placement"]]
    for problem, problem_rows in group_by("problem", placed_rows).items():
        row = problem_rows[0]
        value = (
            find_best_known(identify_row(row)) if len(_fingerprints(problem_rows)) == 1 else None
        )
        if value is None:
            continue
        best_elsewhere = (
            find_best_known(identify_row(row, row["score_on"])) if row["score_on"] else None
        )
        recorded = KnownLatencies.of(value).add_proof([row["latency_ms"] for row in problem_rows])
        known[problem] = replace(
            recorded, elsewhere_ms=best_elsewhere.latency_ms if best_elsewhere else None
        )
    return known


def load_references(path: Path) -> References:
    """Bounds that a folder holds, with placements that solvers found.

    Raises:
        UserError: The file is damaged.
    """
    if not path.is_file():
        return {}
    try:
        return check(ReferencesFile, load_json(path)).model_dump()
    except UserError as error:
        raise UserError(f"{path} is damaged, delete it to find them again: {error}") from error


def _compute_known(
    bench_env: BenchEnv, rows: Sequence[Json], problem: str, references: References
) -> KnownLatencies:
    """The known latencies of corrected rows; a new bound is added to ``references``.

    One of another version, or above some placement, is replaced. An optimum is what a run or the
    solver's placement takes now, never what the file says.
    """
    known_ms = [row["latency_ms"] for row in rows if row["latency_ms"]]
    origin, alone = bench_env.origin, bench_env.one_device_holds_the_model
    key = f"{origin['model_fingerprint']} {origin['costs_fingerprint']} {problem}"
    reference = references.get(key, {})
    placed_ms = [*known_ms, replay(bench_env.base, reference.get("placement"))]
    if reference.get("version") != VERSION or is_above(reference["bound_ms"], placed_ms):
        reference = references[key] = find_reference(bench_env.base, known_ms)
        placed_ms = [*known_ms, replay(bench_env.base, reference["placement"])]
    device_ms = median_device_ms(rows, "latency_ms", "speedup_vs_best_single") if alone else np.nan
    return KnownLatencies(
        best_single_ms=None if np.isnan(device_ms) else device_ms,
        bound_ms=reference["bound_ms"],
        one_device_holds_the_model=alone,
    ).add_proof(placed_ms)


def reopen_env(task: Task, rows: Sequence[Json], envs: BenchEnvs) -> BenchEnv | None:
    """The environment of rows with a latency.

    Returns:
        None if it cannot be made, or its model or costs are not those of all rows.
    """
    if not rows:
        return None
    try:
        bench_env = envs.get(task.env, task.make_kwargs)
    except (ValueError, OSError, RuntimeError):
        return None
    return bench_env if _fingerprints(rows) == _fingerprints([bench_env.origin]) else None


def _fingerprints(rows: Sequence[Json]) -> set[tuple[str, str | None]]:
    """The models and cost tables of rows."""
    return {(row["model_fingerprint"], row["costs_fingerprint"]) for row in rows}


def find_reference(env: DevicePlacementEnv, known_ms: Sequence[float]) -> dict[str, Any]:
    """Find a bound, and perhaps the solver's placement; see ``References``.

    Both for the environment's own latency, submodels and memory limits included; None where it is
    measured, as a profile gives no bound. See ``solvers.bounds.lower_bound``.
    """
    reference = {"bound_ms": None, "placement": None, "version": VERSION}
    backend = env.backend
    if not isinstance(backend, SimulatedBackend):
        return reference
    solved = bounds.lower_bound(
        backend.problem, backend.costs, backend.semantics, upper_ms=min(known_ms, default=np.inf)
    )
    placement = None if solved.assignment is None else solved.assignment.tolist()
    best_ms = min([*known_ms, replay(env, placement)])
    return reference | {"bound_ms": min(solved.bound_ms, best_ms), "placement": placement}


def replay(env: DevicePlacementEnv, placement: list[int] | None) -> float:
    """The latency of a placement that a file holds in ms; infinite if it is none."""
    if placement is None or not isinstance(env.backend, SimulatedBackend):
        return np.inf
    try:
        return evaluate_ms(env.backend, np.array(placement))
    except UserError:
        return np.inf


def is_above(bound_ms: float | None, placed_ms: Sequence[float]) -> bool:
    """Return whether a bound is above the latency of a placement by more than rounding."""
    return bound_ms is not None and min(placed_ms) < bound_ms * (1.0 - ROUNDING)


def evaluate_ms(backend: SimulatedBackend, assignment: IntArray) -> float:
    """The exact latency of (n_units,) device indices in ms, infinite if they are infeasible."""
    if backend.infeasibility(assignment):
        return np.inf
    return backend.remeasure([assignment])[0].latency_ms
