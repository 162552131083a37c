# White-box tests of solvers.search
"""Clusters of linked units: a tree whose levels are contiguous in one order."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from placement_gym.envs import placement_env
from placement_gym.problem.costs import PRESETS
from placement_gym.schedules import Simulator
from placement_gym.solvers.search.chains import Chains
from placement_gym.solvers.search.model import FEWEST, make_clusters, match
from placement_gym.solvers.search.proposals import CLUSTER, N_KINDS, propose


@pytest.mark.parametrize("seed", range(5))
def test_a_move_of_a_cluster_moves_all_of_one_cluster(seed: int) -> None:
    env = placement_env(gym.make("DevicePlacementSim-v0", model="synthetic-layered-100"))
    problem = env.problem
    simulator = Simulator(problem.units, env.cost_table(), PRESETS["event"])
    chains = Chains(problem, simulator, np.random.default_rng(seed))
    layout, state = chains.layout, chains.start(problem.single(0))
    shares = np.zeros(N_KINDS)
    shares[CLUSTER:] = 1.0
    counts = np.zeros((N_KINDS, 2))
    n_moved, kind, _ = propose(chains.model, layout, state, chains.rng, shares, counts)
    assert kind == CLUSTER
    moved = set(state.moved[:n_moved].tolist())
    begins, ends = layout.first_nested.ravel(), layout.last_nested.ravel()
    clusters = (layout.nested[a:b] for a, b in zip(begins, ends, strict=True))
    assert moved in [set(cluster.tolist()) for cluster in clusters]


def chain(n: int) -> tuple[np.ndarray, ...]:
    """Links of a chain of n units, listed at both ends, of 1 ms each."""
    ends = np.stack([np.arange(n - 1), np.arange(1, n)])
    own, other = np.concatenate([ends, ends[::-1]], axis=1)
    by_own = np.argsort(own, kind="stable")
    first = np.searchsorted(own[by_own], np.arange(n + 1))
    return (first.astype(np.uint32), other[by_own].astype(np.uint32), np.ones(2 * n - 2))


def members(clusters, level: int, unit: int) -> set[int]:
    order, begin, end = clusters
    return set(order[begin[level, unit] : end[level, unit]].tolist())


@pytest.mark.parametrize("n", [8, 33, 200])
def test_each_level_splits_the_units(n):
    clusters = make_clusters(*chain(n), np.ones(n))
    order, begin, _ = clusters
    assert sorted(order) == list(range(n))
    for level in range(len(begin)):
        parts = {frozenset(members(clusters, level, unit)) for unit in range(n)}
        assert sum(map(len, parts)) == n
        assert len(parts) >= FEWEST
        assert all(unit in members(clusters, level, unit) for unit in range(n))


def test_clusters_of_a_level_are_whole_in_the_next():
    clusters = make_clusters(*chain(100), np.ones(100))
    n_levels = len(clusters[1])
    assert n_levels >= 4
    for level in range(n_levels - 1):
        for unit in range(100):
            assert members(clusters, level, unit) <= members(clusters, level + 1, unit)


def test_a_node_takes_the_free_neighbour_of_the_highest_score():
    first, other = np.array([0, 3, 4, 5, 6]), np.array([1, 2, 3, 0, 0, 0])
    pair = match(first, other, np.array([1.0, 9.0, 2.0, 1.0, 9.0, 2.0]))
    assert pair.tolist() == [0, 1, 0, 2]


def test_units_without_links_have_no_clusters():
    nothing = np.zeros(0)
    no_links = np.zeros(7, np.uint32), nothing.astype(np.uint32), nothing
    order, begin, _ = make_clusters(*no_links, np.ones(6))
    assert begin.shape == (0, 6)
    assert list(order) == list(range(6))
