"""Small random problems under overlapping schedules, and all their placements."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
from by_hand import cost_table, grouped, made_graph, problem_of, random_backend

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.graph import group
from placement_gym.problem import Problem
from placement_gym.problem.costs import Semantics
from placement_gym.solvers import Solution
from placement_gym.solvers.beams import WIDTHS, Beam, widen

LIST = Semantics("list", contention="none")
OVERLAPPING = [
    LIST,
    Semantics("list", contention="none", order="priority"),
    Semantics("list", transfer="edge", contention="both", op_gap_ms=0.1),
    Semantics("event"),
    Semantics("event", transfer="output", link_gap_ms=0.1),
    Semantics("event", transfer="edge", contention="none"),
    Semantics("event", contention="link", order="priority"),
]


def drawn(seed: int, semantics: Semantics, most: int = 7) -> SimulatedBackend:
    """A random problem; some with transfers as published workloads have, some in larger units."""
    backend = random_backend(seed, most=most)
    rng = np.random.default_rng(seed)
    problem, costs = backend.problem, backend.costs
    if seed % 3 == 1:
        side = rng.random(len(costs.devices))
        apart = ~np.eye(len(side), dtype=bool)
        costs = replace(costs, link_ms=apart * 0.0, link_ms_per_size=(side[:, None] + side) * apart)
    if seed % 2:
        labels = rng.integers(0, problem.n_units, problem.n_units)
        units = grouped(problem.units.graph, np.unique(labels, return_inverse=True)[1])
        supported = costs.units_supported(units)
        problem = Problem(units, problem.devices, supported, problem.operator_bytes)
    return SimulatedBackend(problem, costs, semantics)


def diamonds(seed: int) -> SimulatedBackend:
    """Three diamonds in a row, on two devices or three of which two are equal; one op idle."""
    rng = np.random.default_rng(seed)
    made = []
    for first in (0, 3, 6):
        made += [
            (first, [first + 1, first + 2]),
            (first + 1, [first + 3]),
            (first + 2, [first + 3]),
        ]
    graph, n, d = made_graph(10, made), 10, 2 + seed % 2
    ms = rng.integers(1, 9, (n, 2))[:, [0, 1, 1][:d]] + 0.0
    ms[rng.integers(n)] = 0.0
    costs = cost_table(
        graph, ms, rng.integers(1, 5, len(made)), link_ms_per_size=rng.random() + 0.1
    )
    held, limits = rng.integers(1, 30, n), [None, 0.4, 0.4]
    problem = problem_of(group(graph, "op"), costs, held, weight_share=limits)
    return SimulatedBackend(problem, costs, LIST)


def solve_by_beams(
    backend: SimulatedBackend,
    widths: tuple[int, ...] = WIDTHS,
    time_limit_s: float = 60.0,
    upper_ms: float = np.inf,
) -> Solution:
    """Search with beams of these widths, one after another."""
    end = perf_counter() + time_limit_s
    beam = Beam(backend.problem, backend.costs, backend.semantics, end)
    return widen(beam, widths, upper_ms, end)


def with_idle_operators(backend: SimulatedBackend, seed: int) -> SimulatedBackend:
    """The same problem, but half of the operators take no time."""
    idle = np.random.default_rng(seed).random(len(backend.costs.operators)) < 0.5
    ms = np.where(idle[:, None], 0.0, backend.costs.operator_ms)
    costs = replace(backend.costs, operator_ms=ms)
    return SimulatedBackend(backend.problem, costs, backend.semantics)
