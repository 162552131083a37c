"""Pieces between borders: the same bounds and placements as of the whole, from narrower beams."""

from __future__ import annotations

import numpy as np
import pytest
from overlapping import LIST, all_placements, diamonds

from placement_gym.arrays import FloatArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.solvers.beams.beam import Beam
from placement_gym.solvers.beams.pieces import Joined, PieceSearch

EXACT = 1.0 + 1e-6
WIDTHS = (2, 3, 4, 6, 8, 12)


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
