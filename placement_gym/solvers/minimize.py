"""Solving a linear program with HiGHS, in a unit of time that suits it."""

from __future__ import annotations

from time import perf_counter

from numpy.typing import ArrayLike

from placement_gym.base.arrays import IntArray
from placement_gym.solvers.highs import GAP, Optimum, Solver
from placement_gym.solvers.linear import Linear
from placement_gym.solvers.time_unit import choose_unit, is_accurate

ROUNDS = 10
"""Maximum number of units that are tried for one program."""


def minimize(
    program: Linear,
    time_limit_s: float = 60.0,
    start: tuple[IntArray, ArrayLike] | None = None,
    gap: float = GAP,
    max_nodes: int | None = None,
) -> Optimum:
    """Minimise the objective; at a limit return the best point so far and the bound.

    Args:
        program: Its times may be of any scale.
        time_limit_s: Wall-clock limit.
        start: Columns and values of a point to start from, which the solver completes.
        gap: Relative distance to the bound at which the solver stops.
        max_nodes: Maximum number of nodes of the search tree, which unlike time is reproducible.
    """
    end = perf_counter() + time_limit_s
    unit_ms, best = program.first_unit_ms, None
    for _ in range(ROUNDS):
        solver = Solver(program, unit_ms)
        solver.limit(gap, max_nodes)
        if start is not None:
            solver.start(*start)
        found = solver.run(max(end - perf_counter(), 0.0))
        best = found if best is None or found.values is not None else best
        if found.values is None or is_accurate(found.objective, unit_ms):
            break
        unit_ms = choose_unit(found.objective)
        if perf_counter() > end:
            break
    assert best is not None
    return best
