"""Memory of each device under a placement: weights and key-value cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from placement_gym.base import IntArray, UserError, format_bytes, join_words
from placement_gym.problem import Problem


class MemoryUse(NamedTuple):
    """Memory use of each device.

    Attributes:
        weights: (n_devices,) weights; one that several operators read counts for each of them.
        state: (n_devices,) state, such as a key-value cache at the end of the scenario.
    """

    weights: IntArray
    state: IntArray

    @property
    def total(self) -> IntArray:
        return self.weights + self.state


def count_held(problem: Problem, assignment: IntArray) -> MemoryUse:
    """Count the bytes that each device holds under a placement.

    Args:
        problem: Units and devices.
        assignment: (n_units,) device indices; or (2, n_units) those for prompts and for tokens,
            which are compiled separately and share nothing.
    """
    if assignment.ndim == 2:
        weights, state = np.sum(
            [count_held(problem, placement) for placement in assignment], axis=0
        )
        return MemoryUse(weights, state)
    n_devices, operator_devices = len(problem.devices), assignment[problem.units.of_operator]
    state = np.bincount(operator_devices, state_bytes(problem), n_devices).astype(np.int64)
    return MemoryUse(problem.memory_bytes(assignment) - state, state)


def state_bytes(problem: Problem) -> IntArray:
    """(n_operators,) bytes of state that each operator holds."""
    graph = problem.units.graph
    return np.zeros(len(graph), dtype=np.int64) if graph.state_bytes is None else graph.state_bytes


def weigh_units(problem: Problem) -> IntArray:
    """(n_units,) bytes of weights alone, without state."""
    weights = problem.units.graph.weight_bytes - state_bytes(problem)
    return np.bincount(problem.units.of_operator, weights, problem.n_units).astype(np.int64)


def check_room(problem: Problem) -> None:
    """Raise ``UserError`` if the devices together cannot hold the model, or none a unit of it."""
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
    weights, state = (int(sizes.sum()) for sizes in count_held(problem, problem.single(0)))
    parts = f" (weights {format_bytes(weights)}, cache {format_bytes(state)})"
    return format_bytes(weights + state) + parts * bool(state)


def describe_fit(problem: Problem) -> list[str]:
    """Describe by how much the model exceeds each device or pool; nothing if it fits.

    The memory that an integrated device reports is not a limit; the text says so.
    """
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
    device_bytes = count_held(problem, assignment).total.tolist()
    return [
        f"{label} puts {format_bytes(used)} on {name}, {format_bytes(used - reported)} more than "
        "it reports"
        for name, used, reported in zip(
            problem.device_names, device_bytes, problem.reported_bytes.tolist(), strict=True
        )
        if used > reported
    ]


def within_reported(problem: Problem) -> Problem:
    """Limit integrated devices to the memory that they report.

    They then share no pool, which is larger. Without reports the problem stays the same.
    """
    if np.isinf(problem.reported_bytes).all():
        return problem
    return problem.with_limits(np.minimum(problem.limits_bytes, problem.reported_bytes))


def report_memory(problem: Problem, placements: Mapping[str, IntArray]) -> dict[str, Any]:
    """Report the bytes on each device under labelled placements, for JSON.

    Returns:
        ``devices``: for each its ``name``, ``limit_bytes`` (None without a limit), ``pool`` (of
        all devices that share the limit, empty for none) and ``reported_bytes`` (by an integrated
        device, else None); and ``placements``: label -> for each device ``weights`` and ``state``.
    """
    bytes_of = {label: count_held(problem, placement) for label, placement in placements.items()}
    return {
        "devices": [
            {
                "name": device.name,
                "limit_bytes": limit if np.isfinite(limit) else None,
                "reported_bytes": device.reported_bytes,
                "pool": device.memory_pool,
            }
            for device, limit in zip(problem.devices, problem.limits_bytes.tolist(), strict=True)
        ],
        "placements": {
            label: [
                {"weights": weights, "state": state}
                for weights, state in zip(
                    held_bytes.weights.tolist(), held_bytes.state.tolist(), strict=True
                )
            ]
            for label, held_bytes in bytes_of.items()
        },
    }
