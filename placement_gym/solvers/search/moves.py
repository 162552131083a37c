"""Single moves of the search, for those who judge them by other means than a model's cost."""

from __future__ import annotations

import numpy as np
from numba import njit

from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.search.anneal import N_KINDS, anneal, estimate, undo
from placement_gym.solvers.search.model import SIMULATED, Layout, Model, State, make_state

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
        self.model = Model.of(simulator)._replace(kind=SIMULATED)
        self.layout, self.rng = Layout.of(problem, self.model, limited=False), rng

    def change(self, placement: IntArray, k: int) -> IntArray:
        """(k, n_units) changed copies of an (n_units,) placement."""
        state = make_state(self.model, self.layout, placement)
        estimate(self.model, self.layout, state)
        changed = np.empty((k, len(placement)), np.int64)
        change_copies(self.model, self.layout, state, self.rng, SHARES, changed)
        return changed


@njit(cache=True, nogil=True)
def change_copies(
    model: Model,
    layout: Layout,
    state: State,
    rng: np.random.Generator,
    shares: FloatArray,
    changed: IntArray,
) -> None:
    """Write one move each from the state's placement to (k, n_units) ``changed``."""
    counts = np.zeros((N_KINDS, 2))
    for row in changed:
        n_moved = 0
        for _ in range(ATTEMPTS):
            if n_moved == 0:
                n_moved = anneal(model, layout, state, rng, 1, (0.0, 0.0), shares, counts)
        row[:] = state.place
        undo(layout, state, n_moved)
