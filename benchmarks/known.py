"""Update best known values by faster placements of rows and by higher bounds.

    python benchmarks/known.py results/mine            # placements of a folder's rows
    python benchmarks/known.py --time-limit 60         # lower bounds of all values again

Writes ``bench/studies/best_known.json``. A placement counts only if the simulator computes
the latency that its row states, in an environment made again from the row. A new problem,
or one whose bound a placement refutes, also gets a lower bound, whose solver may find a still
better placement.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import make_parser

from placement_gym.backends import SingleDeviceResults
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray, PlacementGymError, UserError
from placement_gym.bench import BestKnown, find_best_known, identify, load_values
from placement_gym.bench import known as best_known
from placement_gym.bench.known import name_problem, save_values
from placement_gym.bench.report.known_latencies import evaluate_ms
from placement_gym.bench.run import (
    ROWS,
    VARIABLE,
    BenchEnvs,
    Json,
    Task,
    expand_variables,
    load_runs,
)
from placement_gym.bench.run.row_schema import git_commit
from placement_gym.problem import parse_assignment
from placement_gym.solvers import ROUNDING, TOLERANCE, lower_bound

Claims = Sequence[tuple[float, Json]]
"""Latencies in ms that rows state, the lowest first."""
TIME_LIMIT_S = 10.0
SOLVER = "solver of the bound"


class Change(NamedTuple):
    """A problem's best known value before and after, and why placements were not taken."""

    problem: Sequence[Any]
    before: BestKnown | None = None
    after: BestKnown | None = None
    note: str = ""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of results; none: bounds alone")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT_S, help="for a bound, s")
    options = parser.parse_args()
    for change in update_values(options.folder, options.time_limit):
        print(describe_change(change), flush=True)


def update_values(
    folder: Path | None = None, time_limit_s: float = TIME_LIMIT_S
) -> Iterator[Change]:
    """Update the values by placements of a folder, or by higher bounds; yield each change."""
    if folder is None:
        known = load_values(best_known.VALUES)
        claims: Mapping[str, Claims] = {json.dumps(value.problem): () for value in known}
    else:
        claims = group_claims(load_runs(folder))
        if not claims:
            raise UserError(f"{folder} has no {ROWS} with placements of simulated runs")
    with BenchEnvs() as envs:
        for problem, mine in claims.items():
            change = update_problem(json.loads(problem), mine, envs, time_limit_s)
            if change.after is not None and change.after is not change.before:
                replace_value(change.after)
            yield change


def replace_value(value: BestKnown) -> None:
    values = load_values(best_known.VALUES)
    others = [one for one in values if one.identity != value.identity]
    save_values([*others, value], best_known.VALUES)


def group_claims(rows: Sequence[Json]) -> dict[str, Claims]:
    """Group simulated runs by problem, also by the one where they were scored again."""
    groups: dict[str, list[tuple[float, Json]]] = {}
    for row in rows:
        if row["latency_ms"] is not None and row["costs_fingerprint"] is not None:
            task = Task.from_row(row)
            groups.setdefault(task.problem, []).append((row["latency_ms"], row))
            if row["scored_ms"]:
                elsewhere = task.elsewhere or task
                groups.setdefault(elsewhere.problem, []).append((row["scored_ms"], row))
    return {name: sorted(mine, key=lambda claim: claim[0]) for name, mine in groups.items()}


def update_problem(
    problem: Sequence[Any], claims: Claims, envs: BenchEnvs, time_limit_s: float
) -> Change:
    """Change the value of a problem by placements, or without any by a new bound."""
    try:
        backend = open_backend(problem, envs)
    except (PlacementGymError, OSError) as error:
        return Change(problem, note=str(error))
    before = find_best_known(identify(backend))
    row, note = confirm_first(claims, backend, before.latency_ms if before else math.inf)
    after = before if row is None else make_value(problem, row, backend, before)
    if after is not None and not (claims and after.bound_ms):
        after = raise_bound(after, backend, time_limit_s)
    return Change(problem, before, after, note)


def confirm_first(
    claims: Claims, backend: SimulatedBackend, limit_ms: float
) -> tuple[Json | None, str]:
    """Find the first row below a limit whose latency a replay confirms; describe others."""
    wrong: list[str] = []
    for then_ms, row in claims:
        if then_ms >= limit_ms * (1 - ROUNDING):
            break
        now_ms = evaluate_ms(backend, parse_assignment(row["placement"], backend.problem))
        if math.isclose(now_ms, then_ms, rel_tol=ROUNDING):
            return row, "; ".join(wrong)
        wrong.append(f"{row['label']}: was {then_ms:.6g} ms and is now {now_ms:.6g} ms")
    return None, "; ".join(wrong)


def make_value(
    problem: Sequence[Any], row: Json, backend: SimulatedBackend, before: BestKnown | None
) -> BestKnown:
    """Make the value of a confirmed row, with the earlier bound unless it refutes that."""
    identity = identify(backend)
    assert identity is not None
    assignment = parse_assignment(row["placement"], backend.problem)
    latency_ms = evaluate_ms(backend, assignment)
    bound_ms = before.bound_ms if before is not None else 0.0
    return BestKnown(
        identity=identity,
        problem=problem,
        latency_ms=latency_ms,
        placement=encode_assignment(assignment),
        best_single_ms=find_best_single_ms(backend),
        bound_ms=bound_ms if bound_ms <= latency_ms * (1 + TOLERANCE) else 0.0,
        agent=row["label"],
        commit=row["commit"],
        date=row["time"][:10],
    )


def find_best_single_ms(backend: SimulatedBackend) -> float | None:
    """The latency of the fastest device that holds the whole model; None if none does."""
    device = SingleDeviceResults.from_backend(backend).best()
    return None if device is None else evaluate_ms(backend, backend.problem.single(device))


def encode_assignment(assignment: IntArray) -> str:
    return "".join(np.base_repr(device, 36).lower() for device in assignment.tolist())


def raise_bound(value: BestKnown, backend: SimulatedBackend, time_limit_s: float) -> BestKnown:
    """Compute a bound; return the value with it if higher, and a faster placement if found."""
    solved = lower_bound(
        backend.problem, backend.costs, backend.semantics, time_limit_s, value.latency_ms
    )
    if solved.bound_ms > value.latency_ms * (1 + TOLERANCE):
        raise RuntimeError(
            f"the bound of {value.name}, {solved.bound_ms:.6g} ms, exceeds the latency of a "
            f"placement, {value.latency_ms:.6g} ms: the bound or the simulator is wrong"
        )
    if solved.bound_ms > value.bound_ms:
        value = replace(value, bound_ms=float(solved.bound_ms))
    if solved.assignment is None:
        return value
    latency_ms = evaluate_ms(backend, solved.assignment)
    if latency_ms >= value.latency_ms * (1 - ROUNDING):
        return value
    return replace(
        value,
        latency_ms=latency_ms,
        placement=encode_assignment(solved.assignment),
        agent=SOLVER,
        commit=git_commit(),
        date=datetime.now(UTC).date().isoformat(),
    )


def open_backend(problem: Sequence[Any], envs: BenchEnvs) -> SimulatedBackend:
    """Open the simulator of a problem that can be made on any machine."""
    env_id, env_kwargs, model, devices = problem
    if Path(model).suffix and not VARIABLE.match(model):
        raise UserError(f"{model} is a path of one machine: begin it with a variable, as ${{DATA}}")
    kwargs = {"model": expand_variables(model), "devices": devices, **env_kwargs}
    backend = envs.get(env_id, kwargs).base.backend
    if not isinstance(backend, SimulatedBackend):
        raise UserError("measured latencies hold for one machine alone")
    return backend


def describe_change(change: Change) -> str:
    became = "unchanged"
    if change.after is not change.before:
        became = f"was {describe_value(change.before)}; is {describe_value(change.after)}"
    note = f"; not taken: {change.note}" if change.note else ""
    return f"{name_problem(change.problem)}: {became}{note}"


def describe_value(value: BestKnown | None) -> str:
    if value is None:
        return "not known"
    bound = "optimal" if value.proven else f"bound {value.bound_ms / value.latency_ms:.3f}"
    return f"{value.latency_ms:.6g} ms, {bound}, by {value.origin}"


if __name__ == "__main__":
    main()
