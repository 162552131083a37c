"""The list scheduler that decodes preferences, one task after another in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from by_hand import grouped, random_backend

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.costs.table import CostTable
from placement_gym.graph.units import merge_cycles, sort_labels
from placement_gym.problem import Problem
from placement_gym.solvers.tasks import Tasks

Wanted = Callable[[int, int, int], float]
"""Preference of a task in rank order, of a unit, for a device."""


def decode_slowly(problem: Problem, costs: CostTable, wanted: Wanted) -> list[int]:
    """The device of each unit."""
    tasks = Tasks.in_topological_order(problem.units, costs)
    unit_ms = costs.unit_ms(problem.units)
    scale_ms = float(unit_ms.mean()) or 1.0
    read: list[list[int]] = [[] for _ in range(len(tasks))]
    for tensor, reader in zip(*tasks.tensors.readings(), strict=True):
        read[reader].append(int(tensor))
    place: dict[int, int] = {}
    finish: dict[int, float] = {}
    free = [0.0] * len(problem.devices)
    for position, task in enumerate(tasks.rank_order().tolist()):
        unit = int(tasks.unit[task])
        ready = list(free)
        for device in range(len(free)):
            for tensor in read[task]:
                maker = int(tasks.tensors.source[tensor])
                there = place[int(tasks.unit[maker])]
                arrival = finish[maker] + float(tasks.transfer_ms[tensor, there, device])
                ready[device] = max(ready[device], arrival)
        if unit not in place:
            scores = {
                device: wanted(position, unit, device)
                - (ready[device] + float(unit_ms[unit, device])) / scale_ms
                for device in choose_among(problem, place, unit)
            }
            place[unit] = max(scores, key=lambda device: scores[device])
        here = place[unit]
        finish[task] = free[here] = ready[here] + float(tasks.ms[task, here])
    return [place[unit] for unit in range(problem.n_units)]


def choose_among(problem: Problem, place: dict[int, int], unit: int) -> list[int]:
    """The devices with room for a unit after others; without any, the one with most room left."""
    held = problem.unit_bytes
    used = [sum(held[u] for u, d in place.items() if d == device) for device in range(n(problem))]
    able = [device for device in range(n(problem)) if problem.supported[unit, device]]
    fits = [d for d in able if used[d] + held[unit] <= problem.limits_bytes[d]]
    return fits or [max(able, key=lambda d: problem.limits_bytes[d] - used[d])]


def n(problem: Problem) -> int:
    return len(problem.devices)


def drawn_problem(seed: int, grouping: bool = False) -> tuple[Problem, CostTable]:
    """A few operators with refused devices and tight limits; or groups that may form cycles."""
    backend = random_backend(seed, most=12)
    problem, costs = backend.problem, backend.costs
    if not grouping:
        return problem, costs
    graph = problem.units.graph
    labels = np.random.default_rng(seed).integers(0, max(len(graph) // 2, 1), len(graph))
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    if len(np.unique(merge_cycles(graph, labels))) == labels.max() + 1:
        labels = sort_labels(graph, labels)
    units = grouped(graph, labels)
    supported = np.ones((len(units), n(problem)), dtype=np.bool_)
    return Problem(units, problem.devices, supported, problem.operator_bytes), costs


def prefer(run: Sequence[int], preference: FloatArray, price: float, problem: Problem) -> Wanted:
    """Preferences of one sample, as ``decode`` adds them up."""
    held, limits = problem.unit_bytes, problem.limits_bytes

    def wanted(position: int, unit: int, device: int) -> float:
        fill = held[unit] / limits[device] if limits[device] > 0 else 0.0
        return float(preference[run[position], device] - price * fill)

    return wanted


def fits_in_rank_order(problem: Problem, costs: CostTable, placement: IntArray) -> bool:
    """Whether each unit, in rank order, is on a device with room if there was one."""
    tasks = Tasks.in_topological_order(problem.units, costs)
    place: dict[int, int] = {}
    for task in tasks.rank_order().tolist():
        unit = int(tasks.unit[task])
        if unit not in place:
            if placement[unit] not in choose_among(problem, place, unit):
                return False
            place[unit] = int(placement[unit])
    return True
