# White-box tests of solvers.pipelines
"""Leaves without work join their neighbours where no split loses by it."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import cost_table, grouped, made_graph, problem_of
from pipelines import THROUGHPUT, draw_backend, plain_pipeline_ms
from published_workloads import published

from placement_gym.base import BoolArray
from placement_gym.solvers.pipelines import Forward, exact_pipeline
from placement_gym.solvers.pipelines.forward import merge_leaves
from placement_gym.solvers.pipelines.ideals import enumerate_ideals


def merge(
    made: list[tuple[int, list[int]]], ms: list[int], supported: BoolArray | None = None
) -> tuple[Forward, list[bool]]:
    """Merge the leaves of a graph of operators of these times."""
    n = len(ms)
    graph = made_graph(n, made)
    costs = cost_table(graph, np.repeat(np.array(ms)[:, None], 2, axis=1), np.ones(len(made)))
    problem = problem_of(grouped(graph, np.arange(n)), costs, supported=supported)
    merged, joined = merge_leaves(Forward.from_units(problem.units), problem, costs)
    return merged, joined.tolist()


@pytest.mark.parametrize("name", ["bert24_inference", "bert24_training"])
def test_bert24_has_the_publications_30_ideals(name: str) -> None:
    backend = published(f"throughput-inputs/LayerGraphs/{name}", THROUGHPUT)
    merged, _ = merge_leaves(
        Forward.from_units(backend.problem.units), backend.problem, backend.costs
    )
    assert len(enumerate_ideals(merged)) == 30


@pytest.mark.parametrize(
    ("made", "ms", "nodes", "edges"),
    [
        pytest.param(
            [(0, [1]), (1, [2]), (2, [3]), (3, [4])], [0, 0, 5, 5, 0], [0, 0, 0, 1, 1], [[0], [1]],
            id="chains of leaves",
        ),
        pytest.param(
            [(0, [1]), (1, [2]), (0, [2])], [5, 0, 5], [0, 1, 2], [[0, 0, 1], [1, 2, 2]],
            id="work or a second neighbour",
        ),
        pytest.param([(0, [1]), (1, [2])], [0, 0, 0], [0, 0, 0], [[], []], id="leaves alone"),
    ],
)  # fmt: skip
def test_leaves_join_a_neighbour_and_what_has_work_stays(
    made: list[tuple[int, list[int]]], ms: list[int], nodes: list[int], edges: list[list[int]]
) -> None:
    merged, joined = merge(made, ms)
    assert merged.node.tolist() == nodes
    assert merged.edge_index.tolist() == edges
    assert sum(joined) == len(nodes) - len(merged)
    assert not any(one and own for one, own in zip(joined, ms, strict=True))


def test_leaf_stays_apart_if_its_neighbour_runs_elsewhere() -> None:
    supported = np.ones((3, 2), dtype=np.bool_)
    supported[0, 1] = supported[1, 1] = False
    merged, _ = merge([(0, [1]), (1, [2])], [5, 5, 0], supported)
    assert len(merged) == 2
    supported[2, 1] = False
    supported[1, 1] = True
    merged, _ = merge([(0, [1]), (1, [2])], [5, 5, 0], supported)
    assert len(merged) == 3


@pytest.mark.parametrize("seed", range(15))
def test_merging_loses_nothing(seed: int) -> None:
    axes = {"coloured": seed % 2 > 0, "training": seed % 3 == 0, "refused": 0.1 * (seed % 4)}
    backend = draw_backend(seed, n=8, idle=0.6, **axes)
    problem, costs = backend.problem, backend.costs
    found = backend.evaluate_ignoring_limits(exact_pipeline(problem, costs)).latency_ms
    assert found == pytest.approx(plain_pipeline_ms(backend))
