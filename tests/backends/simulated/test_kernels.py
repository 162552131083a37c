"""The kernels against the oracle, on drawn graphs, costs, semantics and placements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from by_hand import cost_table, grouped, ints, made_graph
from oracle import Oracle

from placement_gym.arrays import FloatArray, UInt8
from placement_gym.backends.simulated.kernels.event_fifo import event_fifo
from placement_gym.backends.simulated.kernels.list import list_schedule
from placement_gym.backends.simulated.simulator import Simulator
from placement_gym.costs.semantics import CHOICES, Semantics
from placement_gym.costs.table import CostTable
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.submodels import acyclic_submodels, submodel_devices
from placement_gym.graph.units import Units

MAX_OPERATORS = 14
RNG = np.random.Generator


class Case(NamedTuple):
    units: Units
    costs: CostTable
    semantics: Semantics
    placement: UInt8


def generators(n_cases: int) -> Iterator[tuple[int, RNG]]:
    """The maximum number of operators, small graphs first, and a generator for each case."""
    for seed in range(n_cases):
        yield 1 + seed * MAX_OPERATORS // n_cases, np.random.default_rng(seed)


def draw_graph(rng: RNG, max_operators: int) -> OpGraph:
    """A graph whose operators make any number of tensors, listed in any order."""
    n = int(rng.integers(1, max_operators + 1))
    n_tensors = int(rng.integers(0, 2 * n + 1)) if n > 1 else 0
    return made_graph(n, [draw_tensor(rng, n) for _ in range(n_tensors)])


def draw_tensor(rng: RNG, n: int) -> tuple[int, list[int]]:
    """The source and one to four readers of a tensor in a graph of ``n`` operators."""
    source = int(rng.integers(n - 1))
    readers = rng.integers(source + 1, n, rng.integers(1, 5))
    return source, sorted(set(readers.tolist()))


def draw_typed_graph(rng: RNG, max_operators: int) -> OpGraph:
    """A graph with Constants, Parameters and Results around operators that compute."""
    graph = draw_graph(rng, max_operators)
    n, types = len(graph), ["Relu"] * len(graph)
    for i in range(n):
        if not graph.in_degree()[i]:
            types[i] = str(rng.choice(["Relu", "Constant", "Parameter"]))
        elif not graph.out_degree()[i]:
            types[i] = str(rng.choice(["Relu", "Result"]))
    if "Relu" not in types:
        types[int(rng.integers(n))] = "Relu"
    readers = [rng.permutation(n)[: rng.integers(5)] for _ in range(rng.integers(4))]
    inputs = tuple(tuple(sorted(group.tolist())) for group in readers)
    return replace(graph, types=tuple(types), inputs=inputs)


def draw_units(rng: RNG, graph: OpGraph) -> Units:
    """Operators alone, or any partition, so that units may read each other in a circle."""
    n = len(graph)
    labels = np.arange(n) if rng.random() < 0.5 else rng.integers(0, rng.integers(1, n + 1), n)
    return grouped(graph, np.unique(labels, return_inverse=True)[1])


def draw_costs(rng: RNG, graph: OpGraph) -> CostTable:
    """Costs on one to four devices: small whole numbers that tie, or any floats."""
    d, ties = int(rng.integers(1, 5)), rng.random() < 2 / 3

    def table(*shape: int) -> FloatArray:
        return rng.integers(0, 4, shape).astype(float) if ties else 10 * rng.random(shape)

    return cost_table(
        graph,
        table(len(graph), d),
        table(len(graph.tensors.source)),
        table(d, d),
        table(d, d),
        table(d) * rng.integers(2),
        rng.random(d) < 0.5,
    )


def draw_semantics(rng: RNG, schedule: str, contention: str | None) -> Semantics:
    """Any valid axes beside the given ones."""
    if schedule not in ("event", "list"):
        return Semantics(schedule, memory=str(rng.choice(["off", "static"])))
    contention = contention or str(rng.choice(CHOICES["contention"]))
    transfers = CHOICES["transfer"] if contention in ("none", "source") else ("dest", "edge")
    return Semantics(
        schedule,
        transfer=str(rng.choice(transfers)),
        contention=contention,
        order=str(rng.choice(CHOICES["order"])),
        op_gap_ms=float(rng.choice([0.0, 1.0, 0.3])),
        link_gap_ms=float(rng.choice([0.0, 1.0, 0.3])),
        memory=str(rng.choice(CHOICES["memory"])),
    )


def draw_case(rng: RNG, max_operators: int, schedule: str, contention: str | None = None) -> Case:
    graph = (draw_typed_graph if rng.random() < 0.5 else draw_graph)(rng, max_operators)
    units, costs = draw_units(rng, graph), draw_costs(rng, graph)
    placement = rng.integers(0, len(costs.devices), len(units), dtype=np.uint8)
    return Case(units, costs, draw_semantics(rng, schedule, contention), placement)


def cases(n_cases: int, schedule: str, contention: str | None = None) -> Iterator[Case]:
    """The same cases in every run, small graphs first."""
    for size, rng in generators(n_cases):
        yield draw_case(rng, size, schedule, contention)


def kernel_and_oracle(case: Case) -> tuple[Simulator, Oracle]:
    axes = case.units, case.costs, case.semantics
    return Simulator(*axes), Oracle(*axes)


@pytest.mark.parametrize("contention", CHOICES["contention"])
@pytest.mark.parametrize("schedule", ["event", "list"])
def test_event_and_list_schedules_are_exactly_the_oracles(schedule: str, contention: str) -> None:
    for case in cases(400, schedule, contention):
        kernel, oracle = kernel_and_oracle(case)
        latency, start, finish = kernel.schedule(case.placement)
        expected = oracle.schedule(case.placement.tolist())
        assert (latency, start.tolist(), finish.tolist()) == expected, case
        assert kernel.latency_ms(case.placement) == latency, case


def test_loads_are_exactly_the_oracles() -> None:
    for case in cases(400, "load"):
        kernel, oracle = kernel_and_oracle(case)
        expected = oracle.latency_ms(case.placement.tolist())
        assert kernel.latency_ms(case.placement) == expected, case


def test_serial_latencies_are_the_oracles() -> None:
    for case in cases(400, "serial"):
        kernel, oracle = kernel_and_oracle(case)
        expected = oracle.latency_ms(case.placement.tolist())
        assert kernel.latency_ms(case.placement) == pytest.approx(expected, rel=1e-12), case


def test_schedules_of_calls_are_the_oracles() -> None:
    for case in cases(600, "calls"):
        kernel, oracle = kernel_and_oracle(case)
        latency, start, finish = oracle.schedule(case.placement.tolist())
        found = kernel.schedule(case.placement)
        assert kernel.latency_ms(case.placement) == pytest.approx(latency, rel=1e-12), case
        assert found[0] == pytest.approx(latency, rel=1e-12), case
        np.testing.assert_allclose(found[1], start, rtol=1e-12, atol=0.0, err_msg=str(case))
        np.testing.assert_allclose(found[2], finish, rtol=1e-12, atol=0.0, err_msg=str(case))


@pytest.mark.parametrize("schedule", CHOICES["schedule"])
def test_a_batch_is_bitwise_its_single_placements(schedule: str) -> None:
    for size, rng in generators(60):
        units, costs, semantics, _ = case = draw_case(rng, size, schedule)
        kernel = Simulator(units, costs, semantics)
        for k in (1, 2, 33, 70):
            batch = rng.integers(0, len(costs.devices), (k, len(units)), dtype=np.uint8)
            singles = [kernel.latency_ms(placement) for placement in batch]
            assert kernel.latencies_ms(batch).tolist() == singles, case


def test_submodels_are_counted_as_the_graph_is_cut() -> None:
    for size, rng in generators(600):
        graph, n_devices = draw_typed_graph(rng, 4 * size), int(rng.integers(1, 5))
        units = draw_units(rng, graph)
        placement = rng.integers(0, n_devices, len(units), dtype=np.uint8)
        on = placement.astype(np.int64)[units.of_operator]
        submodels = acyclic_submodels(graph, on)
        expected = np.bincount(submodel_devices(graph, on, submodels), minlength=n_devices)
        ones = np.ones((len(graph), n_devices)), np.ones(len(graph.tensors.source))
        kernel = Simulator(units, cost_table(graph, *ones), Semantics())
        assert kernel.submodels(placement).tolist() == expected.tolist(), (graph, on)


def test_kernels_are_compiled_for_whole_numbers_and_floats_alike() -> None:
    graph = made_graph(2, [(0, [1])])
    units, costs = grouped(graph, ints([0, 1])), cost_table(graph, [[1, 1], [1, 1]], [1])
    for gap in (1, 1.0):
        for schedule in ("event", "list"):
            semantics = Semantics(schedule, op_gap_ms=gap, link_gap_ms=gap)
            Simulator(units, costs, semantics).schedule(np.array([0, 1], dtype=np.uint8))
    assert [len(kernel.signatures) for kernel in (event_fifo, list_schedule)] == [1, 1]


def test_a_graph_in_which_nothing_computes_is_cut_as_the_graph_is() -> None:
    graph = made_graph(2, [(0, [1])], ("Constant", "Result"))
    assert acyclic_submodels(graph, ints([0, 0])).tolist() == [0, 0]
    kernel = Simulator(
        grouped(graph, ints([0, 1])), cost_table(graph, [[1], [1]], [0]), Semantics()
    )
    assert kernel.submodels(np.array([0, 0], dtype=np.uint8)).tolist() == [1]
