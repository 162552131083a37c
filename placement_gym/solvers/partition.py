"""Balanced parts of a graph with a small cut, by METIS: placement that ignores directions.

The baseline "graph partitioning" of papers on placement (Scotch in Tarnawski et al. 2020, METIS in
Mirhoseini et al. 2017).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from placement_gym.base import FloatArray, IntArray, UserError
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable
from placement_gym.schedules import mean_transfers_ms
from placement_gym.solvers.repairs import RepairPrices, repair
from placement_gym.solvers.tasks import Tasks

MIN_MODEL_MS = 1e-300
"""Replaces a model time of zero, so that the sum of reciprocals is finite."""
TOTAL_WEIGHT = 2.0**24
"""Sum of the weights, which are 32-bit integers. Hand-tuned: far from their overflow."""
METIS_SEED = 0
"""Seed of METIS's matching and refinement; partitions depend on it."""


def metis_partition(problem: Problem, costs: CostTable) -> IntArray:
    """(n_units,) devices by METIS: one part each, in proportion to its speed.

    A unit weighs its share of the model's time, averaged over devices; an edge weighs the mean time
    of its transfers, divided among a tensor's readers. Units that their device does not run or hold
    are repaired. Raises a ``UserError`` without pymetis.
    """
    try:
        import pymetis
    except ModuleNotFoundError:
        raise UserError("metis needs pymetis: pip install pymetis (the extra metis)") from None

    tasks = Tasks.from_units(problem.units, costs)
    whole_ms = np.maximum(tasks.ms.sum(axis=0), MIN_MODEL_MS)
    first, other, link_ms = undirected_links(tasks)
    _, part = pymetis.part_graph(
        len(problem.devices),
        pymetis.CSRAdjacency(first, other),
        vweights=integers((tasks.ms / whole_ms).mean(axis=1)),
        eweights=np.maximum(integers(link_ms), 1),
        tpwgts=((1.0 / whole_ms) / (1.0 / whole_ms).sum()).tolist(),
        options=pymetis.Options(seed=METIS_SEED),
    )
    device = problem.move_unsupported(np.asarray(part, dtype=np.int64))
    return repair(problem, device[None], RepairPrices.from_costs(problem, costs))[0]


def undirected_links(tasks: Tasks) -> tuple[IntArray, IntArray, FloatArray]:
    """(n_units + 1,) offsets, (n_links,) neighbours and ms of the cuts between units."""
    tensor, maker, reader = tasks.readings
    share_ms = mean_transfers_ms(tasks.transfer_ms)[tensor] / np.bincount(tensor)[tensor]
    ends = np.concatenate([maker, reader]), np.concatenate([reader, maker])
    matrix = coo_array((np.tile(share_ms, 2), ends), (len(tasks), len(tasks))).tocsr()
    return matrix.indptr, matrix.indices, matrix.data


def integers(values: FloatArray) -> IntArray:
    """Nonnegative integers in proportion to values, with a sum of about ``TOTAL_WEIGHT``."""
    return np.round(values / (values.sum() or 1.0) * TOTAL_WEIGHT).astype(np.int64)
