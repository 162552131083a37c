# White-box tests of graph, schedules
"""The kernels against the oracle, on drawn graphs, costs, semantics and placements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from by_hand import cost_table, grouped, ints, made_graph
from drawn_cases import (
    Case,
    cases,
    draw_case,
    draw_costs,
    draw_graph,
    draw_typed_graph,
    draw_units,
    generators,
)
from oracle import Oracle, count_stages

from placement_gym.base import MAX_DEVICES
from placement_gym.graph import acyclic_submodels, label_components, submodel_devices
from placement_gym.graph.submodels import input_owners
from placement_gym.models import Member
from placement_gym.problem.costs import CHOICES, Semantics
from placement_gym.schedules import Simulator, event_fifo
from placement_gym.schedules.list import list_schedule


def kernel_and_oracle(case: Case) -> tuple[Simulator, Oracle]:
    axes = case.units, case.costs, case.semantics
    return Simulator(*axes), Oracle(*axes)


@pytest.mark.parametrize("contention", CHOICES["contention"])
@pytest.mark.parametrize("schedule", ["event", "list"])
def test_event_and_list_schedules_are_exactly_the_oracles(schedule: str, contention: str) -> None:
    for case in cases(40, schedule, contention):
        kernel, oracle = kernel_and_oracle(case)
        latency, start, finish = kernel.schedule(case.placement)
        expected = oracle.schedule(case.placement.tolist())
        assert (latency, start.tolist(), finish.tolist()) == expected, case
        assert kernel.latency_ms(case.placement) == latency, case


@pytest.mark.parametrize(("schedule", "rel"), [("load", 0.0), ("serial", 1e-12)])
def test_loads_and_serial_latencies_are_the_oracles(schedule: str, rel: float) -> None:
    for case in cases(40, schedule):
        kernel, oracle = kernel_and_oracle(case)
        expected = oracle.latency_ms(case.placement.tolist())
        assert kernel.latency_ms(case.placement) == pytest.approx(expected, rel=rel, abs=0.0), case


@pytest.mark.parametrize(
    "semantics",
    [
        *(Semantics("serial"), Semantics("load"), Semantics("list", contention="none")),
        *(Semantics(one, contention="link", order="fifo") for one in ("event", "list")),
    ],
    ids=lambda axes: f"{axes.schedule}-{axes.contention}",
)
def test_forty_devices_are_more_than_bits_of_32_or_channels_of_8(semantics: Semantics) -> None:
    for _, rng in generators(10):
        units = draw_units(rng, draw_graph(rng, 60))
        costs = draw_costs(rng, units.graph, most_devices=40)
        placement = rng.integers(0, len(costs.devices), len(units), dtype=np.uint8)
        kernel, oracle = Simulator(units, costs, semantics), Oracle(units, costs, semantics)
        expected = oracle.latency_ms(placement.tolist())
        assert kernel.latency_ms(placement) == pytest.approx(expected, rel=1e-12), (units, costs)


def test_schedules_of_calls_are_the_oracles() -> None:
    for case in cases(40, "calls"):
        kernel, oracle = kernel_and_oracle(case)
        latency, start, finish = oracle.schedule(case.placement.tolist())
        found = kernel.schedule(case.placement)
        assert kernel.latency_ms(case.placement) == pytest.approx(latency, rel=1e-12), case
        assert found[0] == pytest.approx(latency, rel=1e-12), case
        np.testing.assert_allclose(found[1], start, rtol=1e-12, atol=0.0, err_msg=str(case))
        np.testing.assert_allclose(found[2], finish, rtol=1e-12, atol=0.0, err_msg=str(case))


@pytest.mark.parametrize("schedule", CHOICES["schedule"])
def test_a_batch_is_bitwise_its_single_placements(schedule: str) -> None:
    for size, rng in generators(10):
        units, costs, semantics, _ = case = draw_case(rng, size, schedule)
        kernel = Simulator(units, costs, semantics)
        for k in (1, 33, 70):
            batch = rng.integers(0, len(costs.devices), (k, len(units)), dtype=np.uint8)
            singles = [kernel.latency_ms(placement) for placement in batch]
            assert kernel.latencies_ms(batch).tolist() == singles, case


def test_submodels_are_counted_as_the_graph_is_cut() -> None:
    for size, rng in generators(50):
        graph, n_devices = draw_typed_graph(rng, 4 * size), int(rng.integers(1, 5))
        units = draw_units(rng, graph)
        placement = rng.integers(0, n_devices, len(units), dtype=np.uint8)
        on = placement.astype(np.int64)[units.of_operator]
        submodels = acyclic_submodels(graph, on)
        expected = np.bincount(submodel_devices(graph, on, submodels), minlength=n_devices)
        ones = np.ones((len(graph), n_devices)), np.ones(len(graph.tensors.source))
        kernel = Simulator(units, cost_table(graph, *ones), Semantics())
        assert kernel.submodels(placement).tolist() == expected.tolist(), (graph, on)


def test_stages_of_unions_are_counted_as_these_are_cut() -> None:
    members = Member("a"), Member("b", 2), Member("c", 3)
    for size, rng in generators(50):
        graph = draw_typed_graph(rng, 6 * size)
        n_devices = int(rng.choice([1, 2, 3, 4, MAX_DEVICES]))
        joined = graph.edge_index, input_owners(graph, np.arange(len(graph)))
        part = label_components(np.concatenate(joined, axis=1), len(graph)) % 3
        pairs = zip(part.tolist(), graph.names, strict=True)
        names = tuple(f"{members[number].name}/{name}" for number, name in pairs)
        units = draw_units(rng, replace(graph, names=names, models=members))
        placement = rng.integers(0, n_devices, len(units), dtype=np.uint8)
        ones = np.ones((len(graph), n_devices)), np.ones(len(graph.tensors.source))
        kernel = Simulator(units, cost_table(units.graph, *ones), Semantics())
        expected = count_stages(units.graph, placement[units.of_operator].astype(int), n_devices)
        assert kernel.stages(placement).tolist() == expected.tolist(), (graph, placement)


def test_kernels_are_compiled_for_whole_numbers_and_floats_alike() -> None:
    graph = made_graph(2, [(0, [1])])
    units, costs = grouped(graph, ints([0, 1])), cost_table(graph, [[1, 1], [1, 1]], [1])
    for gap in (1, 1.0):
        for schedule in ("event", "list"):
            semantics = Semantics(schedule, op_gap_ms=gap, link_gap_ms=gap)
            Simulator(units, costs, semantics).schedule(np.array([0, 1], dtype=np.uint8))
    assert [len(kernel.signatures) for kernel in (event_fifo, list_schedule)] == [1, 1]


def test_graph_without_computation_is_cut_as_the_graph_is() -> None:
    graph = made_graph(2, [(0, [1])], ("Constant", "Result"))
    assert acyclic_submodels(graph, ints([0, 0])).tolist() == [0, 0]
    kernel = Simulator(
        grouped(graph, ints([0, 1])), cost_table(graph, [[1], [1]], [0]), Semantics()
    )
    assert kernel.submodels(np.array([0, 0], dtype=np.uint8)).tolist() == [1]
