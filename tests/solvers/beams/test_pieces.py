"""Pieces between borders: the same bounds and placements as of the whole, from narrower beams."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import cost_table, made_graph
from overlapping import all_placements

from placement_gym.arrays import FloatArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import Semantics
from placement_gym.devices import DeviceSpec
from placement_gym.graph.units import group
from placement_gym.problem import Problem
from placement_gym.solvers.beams.beam import Beam
from placement_gym.solvers.beams.pieces import Joined, PieceSearch

LIST = Semantics("list", contention="none")
EXACT = 1.0 + 1e-6
WIDTHS = (2, 3, 4, 6, 8, 12)


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
    specs = [DeviceSpec(name, weight_share=share) for name, share in
             zip(costs.devices, [None, 0.4, 0.4], strict=False)]  # fmt: skip
    every = np.ones((n, d), dtype=np.bool_)
    problem = Problem(group(graph, "op"), tuple(specs), every, rng.integers(1, 30, n))
    return SimulatedBackend(problem, costs, LIST)


def least_ms(backend: SimulatedBackend) -> float:
    _, latency_ms, feasible = all_placements(backend)
    found: FloatArray = latency_ms[feasible]
    return float(found.min())


def count_joined(beam: Beam, width: int) -> int:
    """How often a beam of that width joins pieces."""
    search, layer, step = PieceSearch(beam, width, np.inf, np.inf), beam.first_layer(), 0
    moves: list = []  # type: ignore[type-arg]
    while step < len(beam.tasks):
        grown, _, step = search.cross(step, layer, moves)
        assert grown is not None
        layer = grown
    return sum(isinstance(move, Joined) for move in moves)


@pytest.mark.parametrize("seed", range(24))
def test_no_placement_is_below_the_bound_of_joined_pieces(seed: int) -> None:
    backend = diamonds(seed)
    least = least_ms(backend)
    beam = Beam(backend.problem, backend.costs, LIST, np.inf, merged=1e-3 * (seed % 3))
    joined = 0
    for width in WIDTHS:
        found = beam.search(width, np.inf, np.inf)
        assert found.bound_ms <= least * EXACT
        assert beam.search(width, least * 1.02, np.inf).bound_ms <= least * EXACT
        joined += count_joined(beam, width)
        if found.proven:
            assert found.bound_ms == pytest.approx(least)
        if found.assignment is not None and not beam.merged:
            assert backend.evaluate(found.assignment).latency_ms >= found.bound_ms / EXACT
    assert joined


@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_pieces_need_narrower_beams_for_the_optimum(seed: int) -> None:
    backend = diamonds(seed)
    least = least_ms(backend)
    beam = Beam(backend.problem, backend.costs, LIST, np.inf)
    proven = [width for width in range(2, 60) if beam.search(width, np.inf, np.inf).proven]
    assert proven
    best = beam.search(proven[0], np.inf, np.inf)
    assert best.assignment is not None
    assert backend.evaluate(best.assignment).latency_ms == pytest.approx(least)
