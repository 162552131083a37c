# White-box tests of agents.hsdag
"""Graph parsing against the definition, one edge at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.hsdag.groups import parse
from placement_gym.base import IntArray


def sample_graph(seed: int, n: int = 12, density: float = 0.3) -> tuple[IntArray, np.ndarray]:
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(rng.random((n, n)) < density, 1)).T
    return pairs, rng.random(pairs.shape[1])


def dominant_components(n: int, edges: IntArray, scores: np.ndarray) -> list[set[int]]:
    """Every node keeps its highest-scoring incident edge; what those connect is a group."""
    groups = [{node} for node in range(n)]
    for node in range(n):
        incident = [e for e in range(edges.shape[1]) if node in edges[:, e]]
        if incident:
            a, b = edges[:, max(incident, key=lambda e: scores[e])].tolist()
            one = next(g for g in groups if a in g)
            other = next(g for g in groups if b in g)
            if one is not other:
                groups.remove(other)
                one |= other
    return groups


@given(st.integers(0, 10_000))
def test_one_level_connects_dominant_edges(seed: int) -> None:
    edges, scores = sample_graph(seed)
    group = parse(12, edges, scores).group
    found = {frozenset(np.flatnonzero(group == g).tolist()) for g in np.unique(group)}
    assert found == {frozenset(g) for g in dominant_components(12, edges, scores)}


@given(st.integers(0, 10_000), st.integers(0, 4))
def test_groups_are_held_by_a_forest_of_their_own_edges(seed: int, depth: int) -> None:
    edges, scores = sample_graph(seed)
    group, kept = parse(12, edges, scores, depth)
    assert (group[edges[0, kept]] == group[edges[1, kept]]).all()
    assert len(kept) == len(set(kept.tolist())) == 12 - (group.max() + 1)


def test_more_levels_make_coarser_groups() -> None:
    edges = np.stack([np.arange(63), np.arange(1, 64)])
    scores = np.random.default_rng(0).random(63)
    sizes = [int(parse(64, edges, scores, depth).group.max()) + 1 for depth in range(8)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 64
    assert sizes[-1] == 1


def test_groups_are_numbered_by_their_first_nodes() -> None:
    edges, scores = sample_graph(3, n=30, density=0.1)
    group = parse(30, edges, scores, depth=2).group
    _, first = np.unique(group, return_index=True)
    assert (np.diff(first) > 0).all()


def test_equal_scores_still_make_a_forest() -> None:
    edges, _ = sample_graph(5)
    group, kept = parse(12, edges, np.zeros(edges.shape[1]))
    assert len(kept) == 12 - (group.max() + 1)


def test_a_graph_without_edges_stays_apart() -> None:
    group, kept = parse(4, np.zeros((2, 0), dtype=np.int64), np.zeros(0), depth=3)
    assert group.tolist() == [0, 1, 2, 3]
    assert not len(kept)


@pytest.mark.parametrize("seed", range(20))
def test_every_group_has_a_device_that_all_its_nodes_allow(seed: int) -> None:
    edges, scores = sample_graph(seed, density=0.5)
    rng = np.random.default_rng(seed)
    allowed = rng.random((12, 3)) < 0.6
    allowed[np.arange(12), rng.integers(3, size=12)] = True
    group, kept = parse(12, edges, scores, depth=3, allowed=allowed)
    for g in np.unique(group):
        assert allowed[group == g].all(axis=0).any()
    assert len(kept) == 12 - (group.max() + 1)


def test_masks_that_agree_change_nothing() -> None:
    edges, scores = sample_graph(7)
    allowed = np.tile([True, False], (12, 1))
    free, masked = parse(12, edges, scores), parse(12, edges, scores, allowed=allowed)
    assert (free.group == masked.group).all()


def chain(n: int) -> IntArray:
    return np.stack([np.arange(n - 1), np.arange(1, n)])


def test_a_group_that_no_device_supports_loses_its_lowest_edge() -> None:
    allowed = np.array([[True, False], [True, True], [False, True]])
    group, kept = parse(3, chain(3), np.array([0.3, 0.6]), depth=2, allowed=allowed)
    assert kept.tolist() == [1]
    assert group.tolist() == [0, 1, 1]
