"""Merging of submodels, where a constraint allows fewer than a placement has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placement_gym.base import IntArray
from placement_gym.graph import acyclic_submodels
from placement_gym.problem import Problem
from placement_gym.schedules import Simulator, cost_ms


def merge_submodels(problem: Problem, simulator: Simulator, assignment: IntArray) -> IntArray:
    """Move whole submodels to other devices until a placement has as few as a constraint allows.

    Each time the move with the lowest latency of those that leave fewer submodels is made. It ends
    with too many if no move leaves fewer.

    Args:
        problem: Its ``max_submodels`` is the limit; without one nothing changes.
        simulator: What a placement costs.
        assignment: (n_units,) devices.
    """
    if problem.max_submodels is None:
        return assignment  # counting takes longer than all else that a search does for an answer
    free = replace(problem, max_submodels=None)
    n = problem.count_submodels(assignment)
    while problem.submodel_error(n):
        best_ms = np.inf
        for moved in move_submodels(problem, assignment):
            place = moved.astype(np.uint8)
            left = int(simulator.submodels(place).sum())
            if left < n and (moved_ms := cost_ms(free, simulator, place)) < best_ms:
                best, best_ms = moved, moved_ms
        if best_ms == np.inf:
            break
        assignment, n = best, problem.count_submodels(best)
    return assignment


def move_submodels(problem: Problem, assignment: IntArray) -> Iterator[IntArray]:
    """Yield the placements with one submodel, as far as it runs there, on another device."""
    unit = problem.units.of_operator
    submodels = acyclic_submodels(problem.units.graph, assignment[unit])
    for submodel in range(int(submodels.max()) + 1):
        inside = np.bincount(unit, submodels == submodel, problem.n_units) > 0
        for device in range(len(problem.devices)):
            moves = inside & problem.supported[:, device] & (assignment != device)
            if moves.any():
                yield np.where(moves, device, assignment)
