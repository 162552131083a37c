"""Moves: changes of a placement that keep neighbouring units together, and of further decisions.

Transfers cost more than a better device for a single unit saves. So most moves take a run of the
topological order, or units that are connected in the graph. Where the environment repairs
placements, the moved units stay, and others leave the full device.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.problem.decisions import LEVELS
from placement_gym.solvers.search.moves import RandomMoves

SCREENED = 0.9
"""Share of moves that are chosen by price; the others are taken as they are drawn."""
PLACEMENT_SHARE = 0.5
"""Share of moves that change the placement; further decisions share the rest."""


class Moves:
    """Proposes changes of a row of decisions, see ``solvers.search.moves``.

    Of every ``screen`` random moves, it proposes the one whose repaired result has the lowest sum
    of times and transfers. This is not the latency where devices work at the same time, but it
    rules out what is certainly bad. Where placements are not repaired, those that do not fit are
    ruled out as well. Without any costs, every random move is proposed.

    Where the environment leaves them open, other moves set a run of levels to one level, or all
    bits of a run of edges. The length of a run is at most the whole, and its logarithm is uniform.

    The search makes room with units that it draws itself, in microseconds; a repair chooses better
    ones, which pays where a move costs an evaluation: .90 of best known after 500 against .86
    (hill climbing, seven validation problems with little memory).

    Args:
        env: The environment; nothing is evaluated.
        rng: Source of all random numbers.
        screen: Number of random moves for each proposed one.
    """

    def __init__(self, env: DevicePlacementEnv, rng: np.random.Generator, screen: int = 10) -> None:
        costs = env.backend.rough_costs
        self.env, self.rng, self.screen = env, rng, 1 if costs is None else screen
        self.random = RandomMoves(env.problem, costs, rng)

    def propose(self, row: IntArray, k: int) -> IntArray:
        """(k, width) changed copies of a (width,) row, chosen by price where that is possible."""
        return self.change_one_decision(row, k, self.choose_placements)

    def change(self, row: IntArray, k: int) -> IntArray:
        """(k, width) randomly changed copies of a (width,) row, repaired."""
        return self.change_one_decision(row, k, self.change_placement)

    def choose_placements(self, assignment: IntArray, k: int) -> IntArray:
        """(k, n_units) changed copies of an (n_units,) placement, chosen by price."""
        changed = self.change_placement(assignment, k * self.screen)
        if self.screen == 1:
            return changed
        groups = self.price(changed, assignment).reshape(k, self.screen)
        cheapest = np.where(self.rng.random(k) < SCREENED, groups.argmin(axis=1), 0)
        chosen: IntArray = changed[np.arange(k) * self.screen + cheapest]
        return chosen

    def price(self, changed: IntArray, assignment: IntArray) -> FloatArray:
        """(k,) prices in ms; infinite where nothing has changed or the placement does not fit."""
        price = self.env.repair_prices.total_ms(changed)
        price[(changed == assignment).all(axis=1)] = np.inf
        if not self.env.repair and self.env.backend.limits_weights:
            price[[bool(self.env.backend.infeasibility(one)) for one in changed]] = np.inf
        return price

    def change_placement(self, assignment: IntArray, k: int) -> IntArray:
        """(k, n_units) randomly changed copies of an (n_units,) placement, repaired."""
        changed = self.random.change(assignment, k)
        if self.env.repair:
            return self.env.repair_placements(changed, keep=changed != assignment)
        return self.env.problem.where_supported(changed)

    def change_one_decision(
        self, row: IntArray, k: int, place: Callable[[IntArray, int], IntArray]
    ) -> IntArray:
        """(k, width) copies of a row, each changed in one decision; ``place`` moves units."""
        if self.env.layout.alone:
            return place(row, k)
        units, levels, bits = self.env.layout.counts
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
