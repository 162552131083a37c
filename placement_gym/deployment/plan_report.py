"""The report of a plan: whether the model fits, what is saved, and the memory of each device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.backends.measured import F32_TOLERANCE, MeasuredBackend
from placement_gym.base import IntArray, UserError, format_bytes, join_words, to_plain
from placement_gym.deployment.candidates import explain_candidates
from placement_gym.deployment.selection import Selection, find_best_single, make_rows
from placement_gym.hardware import collect_cautions
from placement_gym.problem import Placement, Problem, describe_gain, describe_saved

PHASE_SUFFIXES = ("-prefill", "-decode")
"""Suffixes of the files of the two placements for two phases."""
Document = dict[str, Any]


def make_document(
    backend: MeasuredBackend,
    selection: Selection,
    bound_ms: float,
    notes: Sequence[str],
    stem: Path,
) -> Document:
    """Make the report that ``plan`` returns."""
    problem, tolerance, winner = backend.problem, backend.tolerance, selection.winner
    reference = problem.device_names[problem.reference_device]
    tolerated = f"outputs may differ from those of {reference} by {tolerance:.2g} relative"
    rows = make_rows(selection.candidates, problem.units.graph.models)
    assignments = {name: one.assignment for one in selection.candidates for name in one.names}
    document: Document = to_plain(
        {
            "model": problem.units.graph.model,
            "objective": backend.objective,
            "devices": problem.device_names,
            "notes": [
                *collect_cautions(problem.devices),
                *describe_fit(problem),
                *describe_use(problem, winner.label, winner.assignment),
                *notes,
                *([tolerated] if tolerance != F32_TOLERANCE else []),
                *backend.comparison_rules,
                *([f"stopped: this is {selection.stopped}"] if selection.stopped else []),
            ],
            "saved": describe_winner(problem, selection, rows),
            "plan": winner.label,
            "verdict": selection.verdict,
            "bound_ms": bound_ms,
            "file": f"{stem}.json",
            "unsaved": "",
            "rows": rows,
            "meanings": explain_candidates(selection.candidates),
            "memory": report_memory(problem, assignments),
        }
    )
    if selection.phases:
        document["phases"] = {**selection.phases}
        if winner is not selection.chosen:
            document["phases"]["files"] = [f"{stem}{suffix}.json" for suffix in PHASE_SUFFIXES]
    return document


def describe_winner(
    problem: Problem, selection: Selection, rows: Sequence[Mapping[str, Any]]
) -> str:
    """Describe the saved plan in one line."""
    single = find_best_single(selection.candidates)
    best = single.label if single else ""
    row = next(row for row in rows if row["label"] == selection.winner.label)
    if selection.winner is not selection.chosen:
        gain = describe_gain(row["speedup"], row["noise"], best)
        return f"Saved: two placements, one for the prompt and one for tokens{gain}"
    placement = Placement.from_assignment(problem, selection.chosen.assignment)
    return describe_saved(placement, row["speedup"], row["noise"], best)


def count_held(problem: Problem, assignment: IntArray) -> IntArray:
    """(2, n_devices) bytes of weights, and of state such as a key-value cache, on each device.

    A weight counts for each operator that reads it, state as at the end of the scenario. The
    placements of a (2, n_units) pair are compiled separately and share nothing.
    """
    graph, placements = problem.units.graph, np.atleast_2d(assignment)
    held = np.sum([problem.memory_bytes(placement) for placement in placements], axis=0)
    state = np.zeros_like(held)
    if graph.state_bytes is not None:
        for placement in placements:
            operator_devices = placement[problem.units.of_operator]
            state += np.bincount(operator_devices, graph.state_bytes, len(held)).astype(np.int64)
    return np.stack([held - state, state])


def check_room(problem: Problem) -> None:
    """Raise ``UserError`` if the devices cannot hold the model together, or none holds a unit."""
    needed = float(problem.unit_bytes.sum())
    room = float(problem.memory.limits_bytes.sum())
    if needed > room:
        raise UserError(
            f"the model needs {describe_need(problem)}, but {join_words(problem.device_names)} "
            f"have room for {format_bytes(room)} together: {format_bytes(needed - room)} too "
            "little. Add a device, raise memory_bytes, compress the weights (int8) or shorten the "
            "scenario"
        )
    unplaced = np.flatnonzero(~problem.possible.any(axis=1))
    if len(unplaced):
        unit = unplaced[0]
        raise UserError(
            f"unit {problem.units.names[unit]!r} needs {format_bytes(problem.unit_bytes[unit])}, "
            "more than fits on any device that runs it: try granularity='op'"
        )


def describe_need(problem: Problem) -> str:
    """``"17.3 MB (weights 16.2 MB, cache 1.1 MB)"``."""
    weights, state = count_held(problem, problem.single(0)).sum(axis=1).tolist()
    total = format_bytes(weights + state)
    if not state:
        return total
    return f"{total} (weights {format_bytes(weights)}, cache {format_bytes(state)})"


def describe_fit(problem: Problem) -> list[str]:
    """Describe by how much the model exceeds each device or pool, and what devices report."""
    need, names = float(problem.unit_bytes.sum()), problem.device_names
    groups = enumerate(problem.memory.limits_bytes.tolist())
    limits = [
        f"{join_words([names[device] for device in problem.memory.members(group)])} cannot hold "
        f"the model: it needs {describe_need(problem)}, {format_bytes(need - limit)} more than the "
        f"limit of {format_bytes(limit)}"
        for group, limit in groups
        if need > limit
    ]
    reported = zip(names, problem.reported_bytes.tolist(), strict=True)
    return limits + [
        f"the model needs {describe_need(problem)}, {format_bytes(need - capacity)} more than the "
        f"{format_bytes(capacity)} that {name} reports. This is not a limit, because {name} uses "
        f"the host's memory: {name} alone is measured too"
        for name, capacity in reported
        if need > capacity
    ]


def describe_use(problem: Problem, label: str, assignment: IntArray) -> list[str]:
    """Describe by how much a placement exceeds what integrated devices report."""
    device_bytes = count_held(problem, assignment).sum(axis=0).tolist()
    return [
        f"{label} puts {format_bytes(used)} on {name}, {format_bytes(used - reported)} more than "
        "it reports"
        for name, used, reported in zip(
            problem.device_names, device_bytes, problem.reported_bytes.tolist(), strict=True
        )
        if used > reported
    ]


def report_memory(problem: Problem, placements: Mapping[str, IntArray]) -> dict[str, Any]:
    """Report the bytes on each device under labelled placements.

    Returns:
        ``devices``: for each ``name``, ``limit_bytes`` (None without a limit), ``pool`` (of the
        devices that share the limit, or empty) and ``reported_bytes`` (by an integrated device, or
        None). ``placements``: for each label, and for each device, ``weights`` and ``state``.
    """
    limits = [limit if np.isfinite(limit) else None for limit in problem.limits_bytes.tolist()]
    return {
        "devices": [
            {
                "name": device.name,
                "limit_bytes": limit,
                "reported_bytes": device.reported_bytes,
                "pool": device.memory_pool,
            }
            for device, limit in zip(problem.devices, limits, strict=True)
        ],
        "placements": {
            label: [
                {"weights": weights, "state": state}
                for weights, state in np.transpose(count_held(problem, placement)).tolist()
            ]
            for label, placement in placements.items()
        },
    }
