"""Moves: changes of a placement, priority or fusion.

Most moves take a run of the topological order, or connected units: the transfers of a single unit
cost more than a better device saves. If the environment repairs placements, moved units keep their
device, and others leave it if it is full.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.envs import DevicePlacementEnv
from placement_gym.problem import LEVELS
from placement_gym.solvers.search import RandomMoves

SCREENED_SHARE = 0.9
"""Share of moves that are selected by price. Hand-tuned: the rest is random, as prices may err."""
PLACEMENT_SHARE = 0.5
"""Share of moves that change the placement. Hand-tuned: further decisions share the rest."""


class Moves:
    """Proposes changes of a row of decisions, see ``solvers.search.RandomMoves``.

    Of every ``screen`` random moves, it proposes the one whose repaired result has the lowest sum
    of times and transfers. That is not the latency if devices work at the same time, but it rejects
    clearly bad moves, and infeasible ones where placements are not repaired. Without costs, every
    random move is proposed.

    If the environment has these decisions, other moves set a run of levels to one level, or all
    bits of a run of edges.
    """

    def __init__(self, env: DevicePlacementEnv, rng: np.random.Generator, screen: int = 10) -> None:
        costs = env.known_costs
        self.env, self.rng, self.screen = env, rng, 1 if costs is None else screen
        self.random = RandomMoves(env.problem, costs, rng)

    def propose(self, row: IntArray, k: int) -> IntArray:
        """(k, width) changed copies of a (width,) row, selected by price if there are costs."""
        return self.change_one_decision(row, k, self.choose_placements)

    def change(self, row: IntArray, k: int) -> IntArray:
        """(k, width) randomly changed copies of a (width,) row, repaired."""
        return self.change_one_decision(row, k, self.change_placement)

    def choose_placements(self, assignment: IntArray, k: int) -> IntArray:
        """(k, n_units) changed copies of an (n_units,) placement, chosen by price."""
        candidates = self.change_placement(assignment, k * self.screen)
        if self.screen == 1:
            return candidates
        # Each proposal is the cheapest of a group of `screen` candidates.
        groups = self.price(candidates, assignment).reshape(k, self.screen)
        selected = np.where(self.rng.random(k) < SCREENED_SHARE, groups.argmin(axis=1), 0)
        placements: IntArray = candidates[np.arange(k) * self.screen + selected]
        return placements

    def price(self, candidates: IntArray, assignment: IntArray) -> FloatArray:
        """(k,) prices in ms; infinite for unchanged and for infeasible placements."""
        price = self.env.repair_prices.total_ms(candidates)
        # a repair may undo a move
        price[(candidates == assignment).all(axis=1)] = np.inf
        if not self.env.repair and self.env.backend.limits_weights:
            errors = [bool(self.env.backend.infeasibility(candidate)) for candidate in candidates]
            price[errors] = np.inf
        return price

    def change_placement(self, assignment: IntArray, k: int) -> IntArray:
        """(k, n_units) randomly changed copies of an (n_units,) placement, repaired."""
        candidates = self.random.change(assignment, k)
        if self.env.repair:
            return self.env.repair_placements(candidates, keep=candidates != assignment)
        return self.env.problem.move_unsupported(candidates)

    def change_one_decision(
        self, row: IntArray, k: int, place: Callable[[IntArray, int], IntArray]
    ) -> IntArray:
        """(k, width) copies of a row, each changed in one decision; ``place`` moves units."""
        if self.env.layout.alone:
            return place(row, k)
        units, levels, bits = self.env.layout.counts
        rows = np.tile(row, (k, 1))
        moves_units = self.rng.random(k) < PLACEMENT_SHARE
        if moves_units.any():
            rows[moves_units, :units] = place(row[:units], int(moves_units.sum()))
        # neighbours start together, or are fused together
        for i in np.flatnonzero(~moves_units):
            of_edges = bits > 0 and (not levels or self.rng.random() < 0.5)
            if of_edges:
                begin, end = self.draw_run(units + levels, bits)
                rows[i, begin:end] = 1 - rows[i, begin]
            else:
                begin, end = self.draw_run(units, levels)
                rows[i, begin:end] = self.rng.integers(LEVELS)
        return rows

    def draw_run(self, offset: int, size: int) -> tuple[int, int]:
        """Draw the begin and the end of a run in a part of the row; its length is log-uniform."""
        length = max(int(np.ceil(size ** self.rng.random())), 1)
        begin = int(self.rng.integers(size - length + 1))
        return offset + begin, offset + begin + length
