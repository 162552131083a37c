# White-box tests of solvers.search
"""Lines of chains: what a cross takes from its elites, and which placements are kept."""

from __future__ import annotations

from itertools import islice

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.envs import placement_env
from placement_gym.solvers.search import AnytimeSearch
from placement_gym.solvers.search.chains import Elite

TIGHT = ["CPU", {"name": "GPU.0", "weight_share": 0.2}, {"name": "GPU.1", "weight_share": 0.2}]


@pytest.fixture(scope="module")
def backend() -> SimulatedBackend:
    env = gym.make(
        "DevicePlacementSim-v0", model="synthetic-layered-100", devices=TIGHT, schedule="list"
    )
    found = placement_env(env).backend
    assert isinstance(found, SimulatedBackend)
    return found


def search_of(backend: SimulatedBackend) -> AnytimeSearch:
    return AnytimeSearch(backend.problem, backend.simulator, np.random.default_rng(0))


def test_a_cross_takes_one_stretch_of_the_order(backend: SimulatedBackend) -> None:
    chains = search_of(backend).chains
    n_units = backend.problem.n_units
    one, other = (
        Elite(1.0, np.full(n_units, device, np.uint8), 0.0, float(device)) for device in (0, 1)
    )
    crosses = [chains.cross(one, other).place[chains.layout.order] for _ in range(50)]
    changes = [np.flatnonzero(np.diff(cross)) for cross in crosses]
    assert max(map(len, changes)) == 2
    to_the_end = [
        len(at) == 1 and cross[-1] == 1 for at, cross in zip(changes, crosses, strict=True)
    ]
    assert 10 < sum(to_the_end) < 40


def test_each_line_has_one_elite_the_best(backend: SimulatedBackend) -> None:
    search = search_of(backend)
    best: dict[float, float] = {}
    for state, _ in islice(search.advance_chains(), 120):
        search.keep_elite(state)
        line, ms = float(state.scalars.line), float(state.scalars.best_ms)
        best[line] = min(best.get(line, np.inf), ms)
        lines = [elite.line for elite in search.elites]
        assert len(set(lines)) == len(lines)
        assert all(elite.ms == best[elite.line] for elite in search.elites)
    assert search.best.ms == min(best.values())


def test_chains_exceed_limits_but_their_best_never_does(backend: SimulatedBackend) -> None:
    exceeding = 0
    for state, _ in islice(search_of(backend).advance_chains(), 120):
        exceeding += state.scalars.over_bytes > 0.0
        if state.scalars.best_ms < np.inf:
            assert backend.infeasibility(state.best.astype(np.int64)) == ""
    assert exceeding > 10


def test_a_share_of_the_starts_are_random_blocks_that_fit(backend: SimulatedBackend) -> None:
    search, problem = search_of(backend), backend.problem
    states = [search.start_anywhere() for _ in range(100)]
    blocks = [state for state in states if state.scalars.price == 0.0]
    assert 45 < len(blocks) < 75
    assert all(problem.infeasibility(state.place.astype(np.int64)) == "" for state in blocks)
