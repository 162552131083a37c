"""The path-load program lies below every placement of every overlapping schedule."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from by_hand import find_least_ms
from overlapping import OVERLAPPING, drawn
from published_workloads import DATA

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.envs import placement_env
from placement_gym.problem.costs import Semantics
from placement_gym.solvers import Solver, Tasks
from placement_gym.solvers.programs import LoadCuts, PathProgram, solve_path_load, tighten

EXACT = 1.0 + 1e-6


def divided_ms(backend: SimulatedBackend) -> float:
    """The bound with units that may be divided."""
    tasks = Tasks.from_operators(backend.problem.units, backend.costs)
    built = PathProgram.build(backend.problem, tasks, whole=False)
    _, found = tighten(Solver(built.program, whole=False), LoadCuts(built), np.inf)
    return found.bound


@pytest.mark.parametrize("semantics", OVERLAPPING)
@pytest.mark.parametrize("seed", range(4))
def test_no_placement_is_below_the_bounds(seed: int, semantics: Semantics) -> None:
    backend = drawn(seed, semantics)
    divided = divided_ms(backend)
    whole = solve_path_load(backend.problem, backend.costs)
    least = find_least_ms(backend)
    assert 0.0 < divided <= whole.bound_ms * EXACT
    assert whole.bound_ms <= least * EXACT
    assert np.isinf(least) or whole.assignment is not None


@pytest.mark.slow
def test_the_solver_does_not_miss_a_placement() -> None:
    """With its rule "sparsify" HiGHS finds none, and the bound was above a latency of 486.73 ms."""
    problem = {
        "model": str(DATA / "latency-inputs/OperatorGraphs/bert_l-3_inference.json"),
        "devices": "1cpu+2acc@0.3",
        "granularity": "op",
        "schedule": {"preset": "list", "order": "priority"},
    }
    env = placement_env(gym.make("DevicePlacementSim-v0", **problem, observe_graph=False))
    limits = {"time_limit_s": 2.0, "upper_ms": 511.0}
    assert solve_path_load(env.problem, env.cost_table(), **limits).bound_ms < 486.729
