"""Repairs: units leave full devices for the next best with room, and submodels are merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.graph import acyclic_submodels
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.schedules import Simulator, cost_ms
from placement_gym.solvers.repair_kernel import RepairTerms, price_batch, repair_batch
from placement_gym.solvers.tasks import Tasks


@dataclass(frozen=True, eq=False)
class RepairPrices:
    """Costs that a repair minimises: times, and links between units, stored at both ends.

    Attributes:
        unit_ms: (n_units, n_devices) time of each unit.
        first: (n_units + 1,) where each unit's links begin.
        other: (n_links,) the unit at the other end.
        link_ms: (n_links, n_devices, n_devices) transfer by own device and the other's.
    """

    unit_ms: FloatArray
    first: IntArray
    other: IntArray
    link_ms: FloatArray

    @classmethod
    def from_costs(cls, problem: Problem, costs: CostTable | None) -> RepairPrices:
        """Prices by a cost table, or without one by the bytes moved between devices.

        Each reading of a tensor is a link; readers share the price of the transfer.
        """
        if costs is None:
            tensors, apart = problem.units.quotient.tensors, 1.0 - np.eye(len(problem.devices))
            unit_ms = np.zeros(problem.supported.shape)
            transfer_ms = tensors.size_bytes[:, None, None] * apart
        else:
            tasks = Tasks.from_units(problem.units, costs)
            tensors, unit_ms, transfer_ms = tasks.tensors, tasks.ms, tasks.transfer_ms
        tensor, reader = tensors.readings()
        maker = tensors.source[tensor]
        shared_ms = transfer_ms[tensor] / np.bincount(tensor)[tensor][:, None, None]
        own = np.concatenate([maker, reader])
        order = np.argsort(own, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=problem.n_units))])
        other = np.concatenate([reader, maker])[order]
        link_ms = np.concatenate([shared_ms, shared_ms.transpose(0, 2, 1)])[order]
        return cls(unit_ms, first.astype(np.int64), other, np.ascontiguousarray(link_ms))

    def total_ms(self, assignments: IntArray) -> FloatArray:
        """(k,) sums of times and transfers of (k, n_units) placements.

        A tensor counts in proportion to its readers on other devices.
        """
        return price_batch(assignments, self.unit_ms, self.first, self.other, self.link_ms)


def repair(
    problem: Problem, assignments: IntArray, prices: RepairPrices, keep: BoolArray | None = None
) -> IntArray:
    """Make (k, n_units) placements feasible; returns changed copies.

    Unsupported units move to their cheapest device with room. Then, while a device exceeds its
    limit, the unit, run of adjacent units or end of a run with the least regret per byte moves to
    its next best device with room; regret is the difference in ``prices`` and in transfers to its
    neighbours. Units without bytes move only with their run, units of (k, n_units) ``keep`` only if
    all others cannot. If nothing more fits, all units are placed again, largest first, as long as
    that lowers the overload.

    Feasible placements, so also repaired ones, remain unchanged. One that cannot be repaired gets
    the least overload found. Raises a ``UserError`` if an assignment is invalid; see
    ``Problem.check``.
    """
    problem.check(assignments)
    terms = RepairTerms(
        problem.unit_bytes,
        problem.limits_bytes,
        problem.memory.owner,
        # Infinite prices of unsupported devices spare the kernel another test.
        np.ascontiguousarray(np.where(problem.supported, prices.unit_ms, np.inf)),
        prices.first,
        prices.other,
        prices.link_ms,
        np.argsort(-problem.unit_bytes, kind="stable"),
    )
    # One row of False serves all placements.
    none = np.zeros((1, problem.n_units), dtype=np.bool_)
    placements = np.ascontiguousarray(assignments, dtype=np.int64)
    return repair_batch(terms, placements, none if keep is None else keep)


def merge_submodels(problem: Problem, simulator: Simulator, assignment: IntArray) -> IntArray:
    """Move whole submodels to other devices until a placement has as few as the problem allows.

    Makes the move of the lowest latency among those that leave fewer submodels, and ends with too
    many if there is none. Without ``problem.max_submodels``, the (n_units,) assignment is
    unchanged.
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
    """Yield placements with one submodel moved to another device, as far as that supports it."""
    unit = problem.units.of_operator
    submodels = acyclic_submodels(problem.units.graph, assignment[unit])
    for submodel in range(int(submodels.max()) + 1):
        inside = np.bincount(unit, submodels == submodel, problem.n_units) > 0
        for device in range(len(problem.devices)):
            moves = inside & problem.supported[:, device] & (assignment != device)
            if moves.any():
                yield np.where(moves, device, assignment)
