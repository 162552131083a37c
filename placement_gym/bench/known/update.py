"""Better placements from result rows become best known values once a replay confirms them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base.errors import PlacementGymError, UserError
from placement_gym.base.progress import progress_bar
from placement_gym.bench.known import best_known
from placement_gym.bench.known.best_known import (
    DIGITS,
    BestKnown,
    encode_assignment,
    find_best_known,
    load_values,
)
from placement_gym.bench.known.candidates import (
    Claim,
    confirm_first,
    evaluate_ms,
    find_best_single_ms,
    group_candidates,
)
from placement_gym.bench.known.identity import identify
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.provenance import git_commit
from placement_gym.bench.run.rows import ROUNDING, ROWS, load_runs
from placement_gym.bench.study.task import VARIABLE, expand_variables
from placement_gym.problem.placement import parse_assignment
from placement_gym.solvers.bounds import lower_bound
from placement_gym.solvers.solution import TOLERANCE

Entry = TypeVar("Entry")
TIME_LIMIT_S = 10.0
SOLVER = "solver of the bound"


@dataclass(frozen=True)
class Change:
    """Outcome of one problem.

    Attributes:
        problem: As in ``BestKnown``.
        before: Its best known value until now, if there was one.
        after: Its best known value from now on, if there is one.
        note: Why a candidate was not taken, or an empty string.
    """

    problem: Sequence[Any]
    before: BestKnown | None
    after: BestKnown | None
    note: str = ""


def update_values(
    results: str | Path, time_limit_s: float = TIME_LIMIT_S, quiet: bool = False
) -> Iterator[Change]:
    """Update the best known values by better placements in the rows of a folder.

    A placement counts only if the simulator computes the latency that its row states, in an
    environment that is made again from the row. A new problem, or one whose bound a placement
    refutes, also gets a lower bound, whose solver may find a better placement still.

    Yields:
        What became of each problem, after its file is written.

    Raises:
        UserError: There are no placements of simulated runs.
    """
    groups = group_candidates(load_runs(Path(results)))
    if not groups:
        raise UserError(f"{results} has no {ROWS} with placements of simulated runs")
    yield from _update_each(groups, partial(update_problem, time_limit_s=time_limit_s), quiet)


def update_bounds(time_limit_s: float = TIME_LIMIT_S, quiet: bool = False) -> Iterator[Change]:
    """Compute the bounds of all best known values again and keep those that are higher.

    Yields:
        What became of each problem, after its file is written.
    """
    update = partial(update_bound, time_limit_s=time_limit_s)
    yield from _update_each(load_values(best_known.VALUES), update, quiet)


def _update_each(
    entries: Sequence[Entry], update: Callable[[Entry, BenchEnvs], Change], quiet: bool
) -> Iterator[Change]:
    with BenchEnvs() as envs, progress_bar(len(entries), "problems", quiet) as progress:
        for entry in entries:
            change = update(entry, envs)
            if change.after is not None and change.after is not change.before:
                change.after.save(best_known.VALUES)
            progress.advance(progress.task_ids[0])
            yield change


def update_problem(candidates: Sequence[Claim], envs: BenchEnvs, time_limit_s: float) -> Change:
    """The change that candidates for one problem, the fastest first, make to its value."""
    problem = json.loads(candidates[0].task.problem)
    try:
        backend = open_backend(problem, envs)
    except (PlacementGymError, OSError) as error:
        return Change(problem, None, None, str(error))
    earlier = find_best_known(identify(backend))
    confirmed, note = confirm_first(
        candidates, backend, earlier.latency_ms if earlier else math.inf
    )
    if confirmed is None:
        return Change(problem, earlier, earlier, note)
    value = make_value(confirmed, backend)
    if earlier is None or earlier.bound_ms > value.latency_ms * (1 + TOLERANCE):
        value = raise_bound(value, backend, time_limit_s)
    else:
        value = replace(value, bound_ms=earlier.bound_ms)
    return Change(problem, earlier, value, note)


def make_value(candidate: Claim, backend: SimulatedBackend) -> BestKnown:
    """The best known value that a confirmed candidate is, without a bound."""
    row = candidate.row
    identity = identify(backend)
    assert identity is not None
    assignment = parse_assignment(row["placement"], backend.problem)
    return BestKnown(
        identity=identity,
        problem=json.loads(candidate.task.problem),
        latency_ms=evaluate_ms(backend, assignment),
        placement=encode_assignment(assignment),
        best_single_ms=find_best_single_ms(backend),
        bound_ms=0.0,
        agent=row["label"],
        commit=row["commit"],
        date=row["time"][:10],
    )


def raise_bound(value: BestKnown, backend: SimulatedBackend, time_limit_s: float) -> BestKnown:
    """The value with a bound that may be higher, and the solver's placement if that is faster."""
    solved = lower_bound(
        backend.problem, backend.costs, backend.semantics, time_limit_s, value.latency_ms
    )
    if solved.bound_ms > value.latency_ms * (1 + TOLERANCE):
        raise RuntimeError(
            f"the bound of {value.name}, {solved.bound_ms:.6g} ms, exceeds the latency of a "
            f"placement, {value.latency_ms:.6g} ms: please report this"
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


def update_bound(value: BestKnown, envs: BenchEnvs, time_limit_s: float) -> Change:
    """The change that computing the bound of a value again makes."""
    try:
        backend = open_backend(value.problem, envs)
    except (PlacementGymError, OSError) as error:
        return Change(value.problem, value, value, str(error))
    return Change(value.problem, value, raise_bound(value, backend, time_limit_s))


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
