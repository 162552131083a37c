"""Moves: changes of a placement that keep neighbouring units together.

Transfers cost more than a better device for a single unit saves. So a move changes a run of the
topological order, or units that are connected in the graph: it moves them to another device, shifts
the border between two runs, or exchanges two sets of units. Where the environment repairs
placements, a move starts an ejection chain: the moved units stay, and others leave the full device.
"""

from __future__ import annotations

import numpy as np

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.env import DevicePlacementEnv

SCREENED = 0.9
"""Share of moves that are chosen by price; the others are taken as they are drawn."""


class Moves:
    """Proposes changes of a placement.

    Of every ``screen`` random moves, it proposes the one whose repaired result has the lowest sum
    of times and transfers. This is not the latency where devices work at the same time, but it
    rules out what is certainly bad. Where placements are not repaired, those that do not fit are
    ruled out as well. Without any costs, every random move is proposed.

    Args:
        env: The environment; nothing is evaluated.
        rng: Source of all random numbers.
        screen: Number of random moves for each proposed one.
    """

    def __init__(self, env: DevicePlacementEnv, rng: np.random.Generator, screen: int = 10) -> None:
        self.env, self.rng = env, rng
        self.screen = 1 if env.backend.rough_costs is None else screen
        self.n_units, self.n_devices = env.problem.supported.shape
        edges = env.problem.units.quotient.edge_index
        own = np.concatenate([edges[0], edges[1]])
        self.neighbours = np.concatenate([edges[1], edges[0]])[np.argsort(own, kind="stable")]
        counts = np.bincount(own, minlength=self.n_units)
        self.first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def propose(self, assignment: IntArray, k: int) -> IntArray:
        """(k, n_units) changed copies of an (n_units,) placement."""
        changed = self.change(assignment, k * self.screen)
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

    def change(self, assignment: IntArray, k: int) -> IntArray:
        """(k, n_units) randomly changed copies of an (n_units,) placement, repaired."""
        from agents.search.move_kernel import change_batch

        if self.n_devices == 1:
            return np.tile(assignment, (k, 1))
        changed = change_batch(self.rng, assignment, k, self.n_devices, self.first, self.neighbours)
        if self.env.repair:
            return self.env.repair_placements(changed, keep=changed != assignment)
        return self.env.problem.where_supported(changed)
