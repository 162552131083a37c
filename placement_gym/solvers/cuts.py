"""Serial placements by minimum cuts: exact on two devices."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from placement_gym.base import IntArray, UserError
from placement_gym.graph import Units
from placement_gym.problem.costs import CostTable
from placement_gym.solvers.solution import Solution, reaches
from placement_gym.solvers.tasks import Tasks

MAX_CAPACITY = 2**31 - 1
"""Largest capacity of an edge: SciPy's maximum flow takes integers of 32 bits."""


def minimum_cut(units: Units, costs: CostTable) -> Solution:
    """Minimise unit times and transfers on two devices, each tensor sent once per destination.

    Exact but for the rounding of costs to 31 bits, by which the bound is lowered. Submodel costs,
    memory limits and support are ignored. Raises a ``UserError`` unless there are two devices.
    """
    if len(costs.devices) != 2:
        raise UserError(f"a minimum cut places on two devices, not {len(costs.devices)}")
    tasks = Tasks.from_units(units, costs)
    tensors, transfer_ms = tasks.tensors, tasks.transfer_ms
    maker, readers = tensors.source, tensors.readers
    n, n_tensors = len(units), len(maker)
    # Units on device 0 are on the source side. A tensor made there has an edge of its cost to a
    # separate node, and unlimited edges from that to all readers: it is cut once, however many
    # readers are on the other side. A tensor made on device 1 has the same edges reversed, to
    # another node. Nodes are units, two for each tensor, the source and the sink.
    there, everything = n + np.arange(n_tensors), np.arange(n)
    back, source = there + n_tensors, n + 2 * n_tensors
    read = np.repeat(np.arange(n_tensors), np.diff(tensors.offsets))
    endless = np.full(len(readers), np.inf)
    edges = [
        (np.full(n, source), everything, tasks.ms[:, 1]),
        (everything, np.full(n, source + 1), tasks.ms[:, 0]),
        (maker, there, transfer_ms[:, 0, 1]),
        (there[read], readers, endless),
        (back, maker, transfer_ms[:, 1, 0]),
        (readers, back[read], endless),
    ]
    tails, heads, capacities = (np.concatenate(part) for part in zip(*edges, strict=True))
    # Flows are integers, scaled by the best known value: the scale becomes finer as that falls,
    # until it falls by less than half.
    best = np.full(n, tasks.ms.sum(axis=0).argmin())
    best_ms, scaled_ms, rounding_ms = tasks.serial_ms(best), np.inf, 0.0
    while 0.0 < best_ms < scaled_ms / 2:
        scaled_ms, scale = best_ms, MAX_CAPACITY / 2 / best_ms
        rounded = np.minimum(np.rint(capacities * scale), MAX_CAPACITY).astype(np.int32)
        network = csr_array((rounded, (tails, heads)), (source + 2, source + 2))
        best = min(best, cut_network(network, source)[:n], key=tasks.serial_ms)
        best_ms, rounding_ms = tasks.serial_ms(best), len(tails) / scale
    # The cut is optimal for the rounded costs; the true optimum may be lower.
    bound_ms = max(best_ms - rounding_ms, 0.0)
    return Solution(best, bound_ms, reaches(best_ms, bound_ms))


def cut_network(network: csr_array, source: int) -> IntArray:
    """(n_nodes,) sides of a minimum cut, 0 that of the source; the sink is the node after it."""
    residual = network - maximum_flow(network, source, source + 1).flow
    residual.data[residual.data < 0] = 0
    residual.eliminate_zeros()
    sides = np.ones(source + 2, dtype=np.int64)
    sides[breadth_first_order(residual, source, return_predecessors=False)] = 0
    return sides
