"""Moves: changes of a placement that keep neighbouring units together.

Transfers cost more than a better device for a single unit saves. So most moves take a run of the
topological order, or units that are connected in the graph. Where the environment repairs
placements, the moved units stay, and others leave the full device.
"""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.solvers.search.moves import RandomMoves

SCREENED = 0.9
"""Share of moves that are chosen by price; the others are taken as they are drawn."""


class Moves:
    """Proposes changes of a placement, see ``solvers.search.moves``.

    Of every ``screen`` random moves, it proposes the one whose repaired result has the lowest sum
    of times and transfers. This is not the latency where devices work at the same time, but it
    rules out what is certainly bad. Where placements are not repaired, those that do not fit are
    ruled out as well. Without any costs, every random move is proposed.

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
        self.n_units, self.n_devices = env.problem.supported.shape
        self.random = RandomMoves(env.problem, costs, rng)

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
        changed = self.random.change(assignment, k)
        if self.env.repair:
            return self.env.repair_placements(changed, keep=changed != assignment)
        return self.env.problem.where_supported(changed)
