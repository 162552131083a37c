"""Placements of result rows that may be better than what is known, and their replay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.single_devices import SingleDeviceResults
from placement_gym.base.arrays import IntArray
from placement_gym.bench.run.rows import ROUNDING, Json
from placement_gym.bench.study.task import Task
from placement_gym.problem.placement import parse_assignment


def evaluate_ms(backend: SimulatedBackend, assignment: IntArray) -> float:
    """The exact latency of a placement in ms, infinite if it is infeasible."""
    if backend.infeasibility(assignment):
        return np.inf
    return backend.remeasure([assignment])[0].latency_ms


def find_best_single_ms(backend: SimulatedBackend) -> float | None:
    """The latency of the fastest device that holds the whole model; None if none does."""
    device = SingleDeviceResults.of(backend).best()
    return None if device is None else evaluate_ms(backend, backend.problem.single(device))


@dataclass(frozen=True)
class Claim:
    """A placement that claims a latency on the problem of a task."""

    task: Task
    latency_ms: float
    row: Json


def group_candidates(rows: Sequence[Json]) -> list[list[Claim]]:
    """The placements of simulated runs by problem, the fastest first."""
    groups: dict[str, list[Claim]] = {}
    for row in rows:
        if row["latency_ms"] is not None and row["costs_fingerprint"] is not None:
            for candidate in list_candidates(row):
                groups.setdefault(candidate.task.problem, []).append(candidate)
    return [sorted(group, key=lambda claim: claim.latency_ms) for group in groups.values()]


def list_candidates(row: Json) -> list[Claim]:
    """A row's placement on its own problem, and on the one where it was scored a second time."""
    task = Task.of_row(row)
    claims = [Claim(task, row["latency_ms"], row)]
    if row["scored_ms"]:
        claims.append(Claim(task.elsewhere or task, row["scored_ms"], row))
    return claims


def confirm_first(
    candidates: Sequence[Claim], backend: SimulatedBackend, limit_ms: float
) -> tuple[Claim | None, str]:
    """The first candidate below a limit whose latency a replay confirms.

    Returns:
        The candidate, None without any; and which ones were not confirmed.
    """
    wrong: list[str] = []
    for candidate in candidates:
        if candidate.latency_ms >= limit_ms * (1 - ROUNDING):
            break
        assignment = parse_assignment(candidate.row["placement"], backend.problem)
        now_ms = evaluate_ms(backend, assignment)
        if math.isclose(now_ms, candidate.latency_ms, rel_tol=ROUNDING):
            return candidate, "; ".join(wrong)
        label, then_ms = candidate.row["label"], candidate.latency_ms
        wrong.append(f"{label}: was {then_ms:.6g} ms and is now {now_ms:.6g} ms")
    return None, "; ".join(wrong)
