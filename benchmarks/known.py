"""Best known values: faster placements from rows, once a replay confirms them, and higher bounds.

    python benchmarks/known.py rows results/mine            # placements of a folder's rows
    python benchmarks/known.py bounds --time-limit 60       # lower bounds of all values again

Writes ``placement_gym/bench/known/values.json``. A placement counts only if the simulator computes
the latency that its row states, in an environment that is made again from the row. A new problem,
or one whose bound a placement refutes, also gets a lower bound, whose solver may find a better
placement still.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from common import make_parser

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.single_devices import SingleDeviceResults
from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import PlacementGymError, UserError
from placement_gym.bench.known import best_known
from placement_gym.bench.known.best_known import (
    DIGITS,
    BestKnown,
    find_best_known,
    load_values,
    name_problem,
    save_values,
)
from placement_gym.bench.known.identity import identify
from placement_gym.bench.report.known_latencies import evaluate_ms
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.provenance import git_commit
from placement_gym.bench.run.rows import ROUNDING, ROWS, Json, load_runs
from placement_gym.bench.study.task import VARIABLE, Task, expand_variables
from placement_gym.problem.placement import parse_assignment
from placement_gym.solvers.bounds import lower_bound
from placement_gym.solvers.solution import TOLERANCE

Entry = TypeVar("Entry")
TIME_LIMIT_S = 10.0
SOLVER = "solver of the bound"


@dataclass(frozen=True)
class Claim:
    """A placement that claims a latency on the problem of a task."""

    task: Task
    latency_ms: float
    row: Json


@dataclass(frozen=True)
class Change:
    """Outcome of one problem.

    Attributes:
        problem: As in ``BestKnown``.
        before: Its best known value until now, if there was one.
        after: Its best known value from now on, if there is one.
        note: Why a placement was not taken, or an empty string.
    """

    problem: Sequence[Any]
    before: BestKnown | None
    after: BestKnown | None
    note: str = ""


def main() -> None:
    parser = make_parser(__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("rows", help="take faster placements").add_argument("folder", type=Path)
    parts.add_parser("bounds", help="compute all bounds again, keep higher ones")
    for part in parts.choices.values():
        part.add_argument("--time-limit", type=float, default=TIME_LIMIT_S, help="for a bound, s")
    options = parser.parse_args()
    changes = (
        update_bounds(options.time_limit)
        if options.part == "bounds"
        else update_values(options.folder, options.time_limit)
    )
    for line in map(describe_change, changes):
        print(line, flush=True)


def update_values(folder: Path, time_limit_s: float = TIME_LIMIT_S) -> Iterator[Change]:
    """Update the best known values by better placements in the rows of a folder.

    Yields:
        What became of each problem, after the file is written.

    Raises:
        UserError: There are no placements of simulated runs.
    """
    groups = group_claims(load_runs(folder))
    if not groups:
        raise UserError(f"{folder} has no {ROWS} with placements of simulated runs")
    yield from _update_each(groups, partial(update_problem, time_limit_s=time_limit_s))


def update_bounds(time_limit_s: float = TIME_LIMIT_S) -> Iterator[Change]:
    """Compute the bounds of all best known values again and keep those that are higher.

    Yields:
        What became of each problem, after the file is written.
    """
    update = partial(update_bound, time_limit_s=time_limit_s)
    yield from _update_each(load_values(best_known.VALUES), update)


def _update_each(
    entries: Sequence[Entry], update: Callable[[Entry, BenchEnvs], Change]
) -> Iterator[Change]:
    with BenchEnvs() as envs:
        for entry in entries:
            change = update(entry, envs)
            if change.after is not None and change.after is not change.before:
                replace_value(change.after)
            yield change


def replace_value(value: BestKnown) -> None:
    """Write the file with this value in place of the earlier one of its problem."""
    values = load_values(best_known.VALUES)
    others = [one for one in values if one.identity != value.identity]
    save_values([*others, value], best_known.VALUES)


def group_claims(rows: Sequence[Json]) -> list[list[Claim]]:
    """The placements of simulated runs by problem, the fastest first."""
    groups: dict[str, list[Claim]] = {}
    for row in rows:
        if row["latency_ms"] is not None and row["costs_fingerprint"] is not None:
            for claim in list_claims(row):
                groups.setdefault(claim.task.problem, []).append(claim)
    return [sorted(group, key=lambda claim: claim.latency_ms) for group in groups.values()]


def list_claims(row: Json) -> list[Claim]:
    """A row's placement on its own problem, and on the one where it was scored a second time."""
    task = Task.of_row(row)
    claims = [Claim(task, row["latency_ms"], row)]
    if row["scored_ms"]:
        claims.append(Claim(task.elsewhere or task, row["scored_ms"], row))
    return claims


def update_problem(claims: Sequence[Claim], envs: BenchEnvs, time_limit_s: float) -> Change:
    """The change that placements of one problem, the fastest first, make to its value."""
    problem = json.loads(claims[0].task.problem)
    try:
        backend = open_backend(problem, envs)
    except (PlacementGymError, OSError) as error:
        return Change(problem, None, None, str(error))
    earlier = find_best_known(identify(backend))
    confirmed, note = confirm_first(claims, backend, earlier.latency_ms if earlier else math.inf)
    if confirmed is None:
        return Change(problem, earlier, earlier, note)
    value = make_value(confirmed, backend)
    if earlier is None or earlier.bound_ms > value.latency_ms * (1 + TOLERANCE):
        value = raise_bound(value, backend, time_limit_s)
    else:
        value = replace(value, bound_ms=earlier.bound_ms)
    return Change(problem, earlier, value, note)


def confirm_first(
    claims: Sequence[Claim], backend: SimulatedBackend, limit_ms: float
) -> tuple[Claim | None, str]:
    """The first placement below a limit whose latency a replay confirms.

    Returns:
        The placement, None without any; and which ones were not confirmed.
    """
    wrong: list[str] = []
    for claim in claims:
        if claim.latency_ms >= limit_ms * (1 - ROUNDING):
            break
        now_ms = evaluate_ms(backend, parse_assignment(claim.row["placement"], backend.problem))
        if math.isclose(now_ms, claim.latency_ms, rel_tol=ROUNDING):
            return claim, "; ".join(wrong)
        label, then_ms = claim.row["label"], claim.latency_ms
        wrong.append(f"{label}: was {then_ms:.6g} ms and is now {now_ms:.6g} ms")
    return None, "; ".join(wrong)


def make_value(claim: Claim, backend: SimulatedBackend) -> BestKnown:
    """The best known value that a confirmed placement is, without a bound."""
    row = claim.row
    identity = identify(backend)
    assert identity is not None
    assignment = parse_assignment(row["placement"], backend.problem)
    return BestKnown(
        identity=identity,
        problem=json.loads(claim.task.problem),
        latency_ms=evaluate_ms(backend, assignment),
        placement=encode_assignment(assignment),
        best_single_ms=find_best_single_ms(backend),
        bound_ms=0.0,
        agent=row["label"],
        commit=row["commit"],
        date=row["time"][:10],
    )


def find_best_single_ms(backend: SimulatedBackend) -> float | None:
    """The latency of the fastest device that holds the whole model; None if none does."""
    device = SingleDeviceResults.of(backend).best()
    return None if device is None else evaluate_ms(backend, backend.problem.single(device))


def encode_assignment(assignment: IntArray) -> str:
    """The digits of (n_units,) device indices."""
    return "".join(DIGITS[device] for device in assignment)


def update_bound(value: BestKnown, envs: BenchEnvs, time_limit_s: float) -> Change:
    """The change that computing the bound of a value again makes."""
    try:
        backend = open_backend(value.problem, envs)
    except (PlacementGymError, OSError) as error:
        return Change(value.problem, value, value, str(error))
    return Change(value.problem, value, raise_bound(value, backend, time_limit_s))


def raise_bound(value: BestKnown, backend: SimulatedBackend, time_limit_s: float) -> BestKnown:
    """The value with a bound that may be higher, and the solver's placement if that is faster."""
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
    """The simulator of a problem that can be made on any machine.

    Raises:
        UserError: It cannot be made on every machine, or its latencies are measured.
    """
    env_id, env_kwargs, model, devices = problem
    if Path(model).suffix and not VARIABLE.match(model):
        raise UserError(f"{model} is a path of one machine: begin it with a variable, as ${{DATA}}")
    kwargs = {"model": expand_variables(model), "devices": devices, **env_kwargs}
    backend = envs.get(env_id, kwargs).base.backend
    if not isinstance(backend, SimulatedBackend):
        raise UserError(
            "measured latencies hold for one machine alone: name results of a simulated environment"
        )
    if len(backend.problem.devices) > len(DIGITS):
        raise UserError(f"a problem has more than {len(DIGITS)} devices: name results on fewer")
    return backend


def describe_change(change: Change) -> str:
    """A line on what became of a problem."""
    earlier, value = change.before, change.after
    if value is None or value is earlier:
        became = "unchanged"
    else:
        became = f"was {describe_value(earlier)}; is {describe_value(value)}"
    note = f"; not taken: {change.note}" if change.note else ""
    return f"{name_problem(change.problem)}: {became}{note}"


def describe_value(value: BestKnown | None) -> str:
    """Latency, bound and origin of a value."""
    if value is None:
        return "not known"
    bound = "optimal" if value.proven else f"bound {value.bound_ms / value.latency_ms:.3f}"
    return f"{value.latency_ms:.6g} ms, {bound}, by {value.origin}"


if __name__ == "__main__":
    main()
