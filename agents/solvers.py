"""Solvers as agents: a placement from the environment's cost table, without evaluations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.about import check_objective, check_pools
from agents.search import extend_with_rank
from agents.static import FixedPlacement
from placement_gym import solvers
from placement_gym.base import EngineError, IntArray, UserError
from placement_gym.envs import find_semantics, placement_env
from placement_gym.problem import Problem
from placement_gym.problem.costs import PRESETS, CostTable
from placement_gym.schedules import Simulator
from placement_gym.solvers import Solution
from placement_gym.solvers.pipelines import BY_CUT
from placement_gym.solvers.search import search

LOADS = "tarnawski-throughput"
"""The schedule whose latency is the largest load."""
START_EVALUATIONS = 50
"""Proposals of the search that ``max-load`` starts from. Hand-tuned."""

Solver = Callable[[Problem, CostTable], IntArray | Solution]


def solve(env: gym.Env[Any, Any], name: str, solver: Solver) -> FixedPlacement:
    """Solve the environment's problem by its costs.

    Args:
        env: The environment; where it leaves priority open, HEFT adds its rank.
        name: The agent, a key of ``agents.about.ABOUT``.
        solver: Places the problem's units.

    Raises:
        UserError: The solver has another objective, or does not make all decisions of ``env``.
        EngineError: No placement was found.
    """
    base = placement_env(env, joint=name == "heft")
    check_objective(name, base.objective)
    check_pools(name, base.problem, base.objective)
    placement = solver(base.problem, base.cost_table())
    if isinstance(placement, Solution):
        if placement.assignment is None:
            raise EngineError(
                "no placement fits the devices' memory: use larger limits or another device"
                if np.isinf(placement.bound_ms)
                else "no placement was found in time: increase time_limit_s"
            )
        placement = placement.assignment
    if not base.layout.alone:
        placement = extend_with_rank(base, placement[None], fuse=False)[0]
    return FixedPlacement(placement)


def without_options(
    name: str, solver: Solver
) -> Callable[[gym.Env[Any, Any], int], FixedPlacement]:
    """Make the factory of an agent that has no options; see ``solve``."""

    def make(env: gym.Env[Any, Any], seed: int) -> FixedPlacement:
        return solve(env, name, solver)

    make.__name__ = name
    return make


def greedy(env: gym.Env[Any, Any], seed: int) -> FixedPlacement:
    """See ``solvers.earliest_finish``; a measured environment is serial."""
    semantics = find_semantics(placement_env(env)) or PRESETS["serial"]
    return solve(
        env,
        "greedy",
        lambda problem, costs: solvers.earliest_finish(
            problem, Simulator(problem.units, costs, semantics)
        ),
    )


heft = without_options("heft", solvers.heft)
critical_path = without_options("critical-path", solvers.critical_path)
m_etf = without_options("m-etf", solvers.m_etf)
min_cut = without_options(
    "min-cut", lambda problem, costs: solvers.minimum_cut(problem.units, costs)
)
metis = without_options("metis", solvers.metis_partition)
dp = without_options("dp", solvers.exact_pipeline)
dpl = without_options("dpl", solvers.linear_pipeline)
pipedream = without_options(
    "pipedream", lambda problem, costs: solvers.linear_pipeline(problem, costs, BY_CUT)
)
model_per_device = without_options("model-per-device", solvers.model_per_device)
greedy_fill = without_options("greedy-fill", solvers.greedy_fill)


def fill_in_order(env: gym.Env[Any, Any], seed: int, shares: str = "full") -> FixedPlacement:
    """See ``solvers.fill_in_order``."""
    return solve(
        env, "fill-in-order", lambda problem, costs: solvers.fill_in_order(problem, costs, shares)
    )


def search_loads(problem: Problem, costs: CostTable, seed: int = 0) -> IntArray | None:
    """(n_units,) devices with a small largest load, by a short search; None if none fit."""
    rng = np.random.default_rng(seed)
    found = search(problem, costs, LOADS, evaluations=START_EVALUATIONS, rng=rng)
    return found.assignment if np.isfinite(found.latency_ms) else None


def max_load(
    env: gym.Env[Any, Any], seed: int, contiguous: bool = False, time_limit_s: float = 60.0
) -> FixedPlacement:
    """The program of the largest load; see ``solvers.max_load``.

    Args:
        env: An environment with ``objective="throughput"``.
        seed: Seed of the search that the program starts from.
        contiguous: Whether no path may leave a device and return to it. The program then starts
            from ``dpl``, otherwise from ``START_EVALUATIONS`` proposals of ``search``.
        time_limit_s: Wall-clock limit of the program.
    """

    def begin(problem: Problem, costs: CostTable) -> IntArray | None:
        if not contiguous:
            return search_loads(problem, costs, seed)
        try:
            start = solvers.linear_pipeline(problem, costs)
        except UserError:
            return None
        return None if problem.infeasibility(start) else start

    def best(problem: Problem, costs: CostTable) -> Solution:
        start, lower_ms = begin(problem, costs), solvers.load_ms(problem, costs)
        return solvers.max_load(problem, costs, start, lower_ms, time_limit_s, contiguous)

    return solve(env, "max-load", best)


def milp(env: gym.Env[Any, Any], seed: int, time_limit_s: float = 60.0) -> FixedPlacement:
    """See ``solvers.serial_program``."""
    return solve(
        env, "milp", lambda problem, costs: solvers.serial_program(problem, costs, time_limit_s)
    )
