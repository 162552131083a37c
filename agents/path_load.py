"""The integer path-load program as a placer, improved by hill climbing."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.about import check_objective
from agents.search.annealing import Annealing, start_from
from agents.search.starts import propose_heuristics
from placement_gym.env import placement_env
from placement_gym.problem import Problem
from placement_gym.solvers.programs import path_load


def make(
    env: gym.Env[Any, Any],
    seed: int,
    time_limit_s: float = 60.0,
    max_nodes: int | None = None,
    heat: tuple[float, float] = (0.0, 0.0),
    **kwargs: Any,
) -> Annealing:
    """Make a search that starts from the program's placement, and predicts it until it has learned.

    Heuristics are evaluated after it. If the program finds nothing in time, they come first.

    Args:
        env: The environment that evaluates placements.
        seed: Seed of the search.
        time_limit_s: Wall-clock limit of the program.
        max_nodes: Limit of its search tree; unlike a wall-clock limit it makes runs reproducible.
        heat: First and last temperature of the search; the default is hill climbing.
        kwargs: Arguments of ``Annealing``.
    """
    base = placement_env(env)
    check_objective("path-load", base.objective)
    heuristics = propose_heuristics(base)
    solved = path_load.solve(
        base.problem,
        base.cost_table(),
        time_limit_s,
        start=first_feasible(base.problem, heuristics),
        max_nodes=max_nodes,
    )
    return start_from(env, seed, solved.assignment, heuristics, heat=heat, **kwargs)


def first_feasible(problem: Problem, assignments: np.ndarray[Any, Any]) -> Any:
    """The first of (k, n_units) assignments that is feasible, or None."""
    return next((one for one in assignments if not problem.infeasibility(one)), None)
