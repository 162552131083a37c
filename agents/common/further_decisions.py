"""What heuristics decide beside the placement: HEFT's rank as priority, and chains to fuse."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import IntArray
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.problem.decisions import FUSION, LEVELS, PRIORITY
from placement_gym.solvers.tasks import Tasks


def rank_levels(env: DevicePlacementEnv) -> IntArray:
    """(n_units,) levels of equal size by HEFT's upward rank, the longest path highest."""
    tasks = Tasks.in_topological_order(env.problem.units, env.cost_table())
    rank = np.zeros(env.problem.n_units)
    np.maximum.at(rank, tasks.unit, tasks.upward_rank())
    levels = np.empty(len(rank), dtype=np.int64)
    levels[np.argsort(rank, kind="stable")] = LEVELS * np.arange(len(rank)) // len(rank)
    return levels


def chain_edges(env: DevicePlacementEnv) -> IntArray:
    """(n_edges,) 1 where a unit has no other reader; fusing these never closes a cycle."""
    quotient = env.problem.units.quotient
    return (quotient.out_degree()[quotient.edge_index[0]] == 1).astype(np.int64)


def extend_with_rank(env: DevicePlacementEnv, placements: IntArray, fuse: bool) -> IntArray:
    """(k, width) rows of (k, n_units) placements, with levels by rank, and fused chains if wanted.

    Args:
        env: Where the rows are evaluated; a decision that it does not leave open is not added.
        placements: The placements.
        fuse: Whether chains are fused.
    """
    parts = [placements]
    if PRIORITY in env.decisions:
        parts.append(np.tile(rank_levels(env), (len(placements), 1)))
    if FUSION in env.decisions:
        edges = chain_edges(env) * fuse
        parts.append(np.tile(edges, (len(placements), 1)))
    return np.concatenate(parts, axis=1)
