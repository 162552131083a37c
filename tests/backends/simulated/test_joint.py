# White-box tests of backends.simulated
"""Priority and fusion: the simulator against the slow oracle, and examples worked by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from by_hand import cost_table, made_graph
from drawn_cases import draw_semantics, draw_typed_graph, draw_units, generators
from graphs import chain
from joint_oracle import JointOracle
from oracle import Oracle

from placement_gym.backends.simulated.joint import Fusion, JointSimulator
from placement_gym.base import FloatArray
from placement_gym.graph import OpGraph, Units, group
from placement_gym.problem import LEVELS, Choices
from placement_gym.problem.costs import CostTable, Semantics
from placement_gym.schedules import FusionCosts, Simulator


class Case(NamedTuple):
    units: Units
    costs: CostTable
    parts: FusionCosts
    semantics: Semantics
    choices: Choices


def cases(n_cases: int) -> Iterator[Case]:
    """Graphs, costs and decisions of whole numbers, whose sums are exact; small ones first."""
    for size, rng in generators(n_cases):
        graph = draw_typed_graph(rng, size)
        units, d = draw_units(rng, graph), int(rng.integers(1, 4))

        def table(*shape: int, rng: np.random.Generator = rng) -> FloatArray:
            return rng.integers(0, 5, shape).astype(float)

        n, n_tensors = len(graph), len(graph.tensors.source)
        parts = FusionCosts(table(n, d), table(n, d), table(n, d), table(n_tensors, d))
        ms = parts.launch_ms + np.maximum(parts.arithmetic_ms, parts.traffic_ms)
        costs = cost_table(graph, ms, table(n_tensors), table(d, d), table(d, d))
        semantics = replace(draw_semantics(rng, "event", None), memory="off")
        choices = Choices(
            rng.integers(0, d, len(units)),
            rng.integers(0, LEVELS, len(units)),
            (rng.random(units.quotient.n_edges) < rng.choice([0.3, 0.8, 1.0])).astype(np.int64),
        )
        yield Case(units, costs, parts, semantics, choices)


def simulate(case: Case, by_level: bool) -> tuple[float, list[float], list[float]]:
    plain = Simulator(case.units, case.costs, case.semantics)
    fusion = Fusion(case.units, plain.program, case.parts)
    joint = JointSimulator(plain, by_level, fusion).choosing(case.choices)
    placement = case.choices.placement.astype(np.uint8)
    latency, start, finish = joint.schedule(placement)
    assert joint.latency_ms(placement) == latency
    return latency, start.tolist(), finish.tolist()


@pytest.mark.parametrize("by_level", [True, False])
def test_schedules_are_exactly_the_oracles(by_level: bool) -> None:
    fused = 0
    for case in cases(80):
        oracle = JointOracle(Oracle(case.units, case.costs, case.semantics), case.parts, by_level)
        found = simulate(case, by_level)
        assert found == oracle.schedule(case.choices), case
        alone = case._replace(choices=case.choices._replace(fused=0 * case.choices.fused))
        fused += simulate(alone, by_level)[0] != found[0]
    assert fused > 10


def one_device(graph: OpGraph, fused: list[int], on: list[int] | None = None) -> Case:
    """Launches of 1, arithmetic of 2, traffic of 5 and tensors of 2 on two equal devices."""
    n, d = len(graph), 2
    n_tensors = len(graph.tensors.source)
    parts = FusionCosts(
        *(np.full((n, d), v) for v in (1.0, 2.0, 5.0)), np.full((n_tensors, d), 2.0)
    )
    costs = cost_table(graph, np.full((n, d), 6.0), np.ones(n_tensors))
    units = group(graph, "op")
    choices = Choices(np.array(on or [0] * n), np.zeros(n, np.int64), np.array(fused))
    return Case(units, costs, parts, Semantics("event"), choices)


@pytest.mark.parametrize(
    ("fused", "expected"),
    [
        ([0, 0], 18.0),
        ([1, 0], 13.0),  # a launch of 1, a write of 2 and a read of 2 less
        ([1, 1], 9.0),  # the middle operator's arithmetic remains: 1 + 3 + 2 + 3
    ],
)
def test_a_fused_edge_saves_a_launch_a_write_and_a_read(fused: list[int], expected: float) -> None:
    assert simulate(one_device(chain(3), fused), True)[0] == expected


def test_an_edge_between_devices_is_not_fused() -> None:
    apart = simulate(one_device(chain(2), [1], [0, 1]), True)[0]
    assert apart == simulate(one_device(chain(2), [0], [0, 1]), True)[0] == 13.0


def test_a_tensor_that_another_operator_reads_is_still_written() -> None:
    graph = made_graph(3, [(0, (1, 2))])
    assert simulate(one_device(graph, [1, 0]), True)[0] == 18.0 - 1.0 - 2.0


def test_what_would_wait_for_itself_is_not_fused() -> None:
    graph = made_graph(3, [(0, (1, 2)), (1, (2,))])  # edges 0-1, 0-2, 1-2
    on = [0, 1, 0]
    alone = simulate(one_device(graph, [0, 0, 0], on), True)
    assert simulate(one_device(graph, [0, 1, 0], on), True) == alone


def test_a_free_device_starts_the_highest_level() -> None:
    case = one_device(made_graph(3, []), [])
    for levels, order in (([0, 0, 0], [0, 1, 2]), ([0, 1, 7], [2, 1, 0]), ([1, 0, 1], [0, 2, 1])):
        chosen = case._replace(choices=case.choices._replace(priority=np.array(levels)))
        _, start, _ = simulate(chosen, True)
        assert np.argsort(start).tolist() == order
