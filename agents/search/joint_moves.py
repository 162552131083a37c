"""All decisions of an environment, placement, priority and fusion: moves, and first choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from agents.search.moves import Moves
from placement_gym.base.arrays import IntArray
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.problem.decisions import FUSION, LEVELS, PRIORITY
from placement_gym.solvers.tasks import Tasks

Change = Callable[[IntArray, int], IntArray]

PLACEMENT_SHARE = 0.5
"""Share of moves that change the placement; the other decisions share the rest."""


class ProposesMoves(Protocol):
    """The moves of annealing."""

    def propose(self, assignment: IntArray, k: int) -> IntArray:
        """(k, width) changed copies of a row, chosen by price where that is possible."""

    def change(self, assignment: IntArray, k: int) -> IntArray:
        """(k, width) randomly changed copies of a row."""


class JointMoves:
    """Changes the placement as ``Moves`` does, or the levels of a run of units, or bits of edges.

    A run of levels is set to one level; of a run of edges all bits are set, or all cleared. The
    length of a run is at most the whole, and its logarithm is uniform.

    Args:
        env: The environment; nothing is evaluated.
        rng: Source of all random numbers.
        screen: See ``Moves``.
    """

    def __init__(self, env: DevicePlacementEnv, rng: np.random.Generator, screen: int) -> None:
        self.rng, self.layout = rng, env.layout
        self.placements = Moves(env, rng, screen)

    def propose(self, assignment: IntArray, k: int) -> IntArray:
        """See ``ProposesMoves.propose``."""
        return self.apply(self.placements.propose, assignment, k)

    def change(self, assignment: IntArray, k: int) -> IntArray:
        """See ``ProposesMoves.change``."""
        return self.apply(self.placements.change, assignment, k)

    def apply(self, place: Change, row: IntArray, k: int) -> IntArray:
        """(k, width) copies of a row, each changed in one decision; ``place`` moves units."""
        units, levels, bits = self.layout.counts
        rows = np.tile(row, (k, 1))
        moved = self.rng.random(k) < PLACEMENT_SHARE
        if moved.any():
            rows[moved, :units] = place(row[:units], int(moved.sum()))
        for i in np.flatnonzero(~moved):
            of_edges = bits > 0 and (not levels or self.rng.random() < 0.5)
            if of_edges:
                begin, end = self.draw_run(units + levels, bits)
                rows[i, begin:end] = 1 - rows[i, begin]
            else:
                begin, end = self.draw_run(units, levels)
                rows[i, begin:end] = self.rng.integers(LEVELS)
        return rows

    def draw_run(self, offset: int, size: int) -> tuple[int, int]:
        """Draw the begin and the end of a run of a part of the row."""
        length = max(int(np.ceil(size ** self.rng.random())), 1)
        begin = int(self.rng.integers(size - length + 1))
        return offset + begin, offset + begin + length


def make_moves(env: DevicePlacementEnv, rng: np.random.Generator, screen: int) -> ProposesMoves:
    """Moves in whatever the environment's actions decide."""
    return Moves(env, rng, screen) if env.layout.alone else JointMoves(env, rng, screen)


def extend_starts(env: DevicePlacementEnv, starts: IntArray) -> IntArray:
    """(k, width) starts: placements as they are, and with what heuristics add to them."""
    if env.layout.alone:
        return starts
    rows = [env.layout.complete(starts), *(extend_with_rank(env, starts, f) for f in (False, True))]
    return np.unique(np.concatenate(rows), axis=0)


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
