"""Single moves of the search, for those who judge them by other means than a model's cost."""

from __future__ import annotations

import numpy as np

from placement_gym.base import IntArray
from placement_gym.problem import Problem
from placement_gym.problem.costs import PRESETS, CostTable
from placement_gym.schedules import Simulator
from placement_gym.solvers.search.ejections import undo
from placement_gym.solvers.search.model import SIMULATED, Layout, Model, make_state
from placement_gym.solvers.search.proposals import N_KINDS, propose

ATTEMPTS = 10
SHARES = np.cumsum([0.05, 0.2, 0.3, 0.2, 0.05, 0.2, 0.0])
"""Of the kinds of move: few change a single unit, as each result costs an evaluation."""


class RandomMoves:
    """Changes placements by one move each, within support; memory limits do not count.

    Args:
        problem: Units and devices.
        costs: By which a stretch of units is placed again; None takes the bytes of transfers.
        rng: Source of all random numbers.
    """

    def __init__(self, problem: Problem, costs: CostTable | None, rng: np.random.Generator) -> None:
        costs = costs or CostTable.by_bytes(problem.units.graph, problem.device_names)
        simulator = Simulator(problem.units, costs, PRESETS["serial"])
        self.model = Model.of(simulator, SIMULATED)
        self.layout, self.rng = Layout.of(problem, self.model, limited=False), rng

    def change(self, placement: IntArray, k: int) -> IntArray:
        """(k, n_units) changed copies of an (n_units,) placement."""
        model, layout, counts = self.model, self.layout, np.zeros((N_KINDS, 2))
        state = make_state(model, layout, placement)
        changed = np.empty((k, len(placement)), np.int64)
        for row in changed:
            for _ in range(ATTEMPTS):
                n_moved, _, _ = propose(model, layout, state, self.rng, SHARES, counts)
                if n_moved:
                    break
            row[:] = state.place
            undo(layout, state, n_moved)
        return changed
