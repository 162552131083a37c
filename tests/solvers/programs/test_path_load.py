"""The path-load program lies below every placement of every overlapping schedule."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import find_least_ms
from overlapping import OVERLAPPING, drawn

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.problem.costs.semantics import Semantics
from placement_gym.solvers.highs import CuttingPlaneSolver
from placement_gym.solvers.programs.load_cuts import LoadCuts, tighten
from placement_gym.solvers.programs.path_load import solve
from placement_gym.solvers.programs.path_program import PathProgram
from placement_gym.solvers.tasks import Tasks

EXACT = 1.0 + 1e-6


def divided_ms(backend: SimulatedBackend) -> float:
    """The bound with units that may be divided."""
    tasks = Tasks.of_operators(backend.problem.units, backend.costs)
    built = PathProgram.build(backend.problem, tasks, whole=False)
    _, found = tighten(CuttingPlaneSolver(built.program), LoadCuts(built), np.inf)
    return found.bound


@pytest.mark.parametrize("semantics", OVERLAPPING)
@pytest.mark.parametrize("seed", range(4))
def test_no_placement_is_below_the_bounds(seed: int, semantics: Semantics) -> None:
    backend = drawn(seed, semantics)
    divided = divided_ms(backend)
    whole = solve(backend.problem, backend.costs)
    least = find_least_ms(backend)
    assert 0.0 < divided <= whole.bound_ms * EXACT
    assert whole.bound_ms <= least * EXACT
    assert np.isinf(least) or whole.assignment is not None
