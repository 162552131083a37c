"""The best serial placement on two devices without limits: a minimum s-t cut."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from placement_gym.costs.table import CostTable, FloatArray
from placement_gym.graph.operators import IntArray
from placement_gym.graph.units import Units
from placement_gym.solvers.tasks import Tasks

LARGEST = 2**31 - 1


def minimum_cut(units: Units, costs: CostTable) -> IntArray:
    """(n_units,) devices that minimise unit times and transfers, a tensor once a destination.

    Exact up to the rounding of costs to 31 bits; costs of submodels, memory limits and support are
    not seen. Units on device 0 lie on the side of s. A tensor made there passes its cost on to a
    node of its own and from that to all readers without limit, so that it is cut once however
    many of them lie on the other side; a tensor made on device 1 likewise, the other way round.

    Args:
        units: What to place.
        costs: Of the units' operators on exactly two devices.

    Raises:
        ValueError: There are not two devices.
    """
    if len(costs.devices) != 2:
        raise ValueError(f"a minimum cut places on two devices, not {len(costs.devices)}")
    tasks = Tasks.of_units(units, costs)
    tensors, unit_ms, transfer_ms = tasks.tensors, tasks.ms, tasks.transfer_ms
    source, readers = tensors.source, tensors.readers
    n, n_tensors = len(units), len(source)
    s, t = n + 2 * n_tensors, n + 2 * n_tensors + 1
    there = n + np.arange(n_tensors)
    back = there + n_tensors
    read = np.repeat(np.arange(n_tensors), np.diff(tensors.offsets))
    everything, endless = np.arange(n), np.full(len(readers), np.inf)
    edges = (
        (np.full(n, s), everything, unit_ms[:, 1]),
        (everything, np.full(n, t), unit_ms[:, 0]),
        (source, there, transfer_ms[:, 0, 1]),
        (there[read], readers, endless),
        (back, source, transfer_ms[:, 1, 0]),
        (readers, back[read], endless),
    )
    tails, heads, capacities = (np.concatenate(part) for part in zip(*edges, strict=True))
    network = csr_array((to_integers(capacities, unit_ms), (tails, heads)), (t + 1, t + 1))
    residual = network - maximum_flow(network, s, t).flow
    residual.data[residual.data < 0] = 0
    residual.eliminate_zeros()
    devices = np.ones(t + 1, dtype=np.int64)
    devices[breadth_first_order(residual, s, return_predecessors=False)] = 0
    return devices[:n]


def to_integers(capacities: FloatArray, unit_ms: FloatArray) -> IntArray:
    """(n_edges,) int32, scaled such that no flow can exceed 31 bits."""
    scale = LARGEST / 2 / max(unit_ms.sum(axis=0).min(), np.finfo(float).tiny)
    return np.minimum(np.rint(capacities * scale), LARGEST).astype(np.int32)
