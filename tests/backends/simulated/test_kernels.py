"""The kernels against the oracle, on drawn graphs, costs, semantics and placements."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from by_hand import cost_table, grouped, ints, made_graph
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import Oracle

from placement_gym.arrays import FloatArray, UInt8
from placement_gym.backends.simulated.simulator import Simulator
from placement_gym.costs.semantics import CHOICES, Semantics
from placement_gym.costs.table import CostTable
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.submodels import acyclic_submodels, submodel_devices
from placement_gym.graph.units import Units

MAX_OPERATORS = 14
FEW_MS = st.integers(0, 3).map(float)
ANY_MS = st.floats(0, 10, allow_subnormal=False)


def repeated(max_examples: int) -> settings:
    return settings(derandomize=True, deadline=None, max_examples=max_examples)


class Case(NamedTuple):
    units: Units
    costs: CostTable
    semantics: Semantics
    placement: UInt8


@st.composite
def graphs(draw: st.DrawFn) -> OpGraph:
    """Graphs whose operators make any number of tensors, listed in any order."""
    n = draw(st.integers(1, MAX_OPERATORS))
    n_tensors = draw(st.integers(0, 2 * n)) if n > 1 else 0
    return made_graph(n, [draw(tensors_of(n)) for _ in range(n_tensors)])


@st.composite
def tensors_of(draw: st.DrawFn, n: int) -> tuple[int, list[int]]:
    """The source and the readers of a tensor in a graph of ``n`` operators."""
    source = draw(st.integers(0, n - 2))
    reader = st.integers(source + 1, n - 1)
    return source, sorted(draw(st.sets(reader, min_size=1, max_size=4)))


@st.composite
def typed_graphs(draw: st.DrawFn) -> OpGraph:
    """Graphs with Constants, Parameters and Results around operators that compute."""
    graph = draw(graphs())
    n = len(graph)
    source = st.sampled_from(["Relu", "Constant", "Parameter"])
    sink = st.sampled_from(["Relu", "Result"])
    readings, reads = graph.out_degree(), graph.in_degree()
    types = [
        draw(source) if not reads[i] else draw(sink) if not readings[i] else "Relu"
        for i in range(n)
    ]
    assume("Relu" in types)
    readers = st.lists(st.integers(0, n - 1), unique=True, max_size=4).map(sorted)
    return replace(
        graph, types=tuple(types), inputs=tuple(map(tuple, draw(st.lists(readers, max_size=3))))
    )


@st.composite
def groupings(draw: st.DrawFn, graph: OpGraph) -> Units:
    """Any partition, so that units may read each other in a circle."""
    n = len(graph)
    if draw(st.booleans()):
        return grouped(graph, np.arange(n))
    n_units = draw(st.integers(1, n))
    labels = draw(st.lists(st.integers(0, n_units - 1), min_size=n, max_size=n))
    return grouped(graph, np.unique(labels, return_inverse=True)[1])


@st.composite
def cost_tables(draw: st.DrawFn, graph: OpGraph) -> CostTable:
    """Costs on one to four devices: small whole numbers that tie, or any floats."""
    d = draw(st.integers(1, 4))
    value = draw(st.sampled_from([FEW_MS, FEW_MS, ANY_MS]))

    def table(*shape: int) -> FloatArray:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(value, min_size=size, max_size=size))).reshape(shape)

    return cost_table(
        graph,
        table(len(graph), d),
        table(len(graph.tensors.source)),
        table(d, d),
        table(d, d),
        table(d) * draw(st.booleans()),
        np.array(draw(st.lists(st.booleans(), min_size=d, max_size=d))),
    )


@st.composite
def semantics_of(draw: st.DrawFn, schedule: str, contention: str | None) -> Semantics:
    """Any valid axes beside the given ones."""
    if schedule not in ("event", "list"):
        return Semantics(schedule, memory=draw(st.sampled_from(["off", "static"])))
    contention = contention or draw(st.sampled_from(CHOICES["contention"]))
    transfers = CHOICES["transfer"] if contention in ("none", "source") else ("dest", "edge")
    gap_ms = st.sampled_from([0.0, 1.0, 0.3])
    return Semantics(
        schedule,
        transfer=draw(st.sampled_from(transfers)),
        contention=contention,
        order=draw(st.sampled_from(CHOICES["order"])),
        op_gap_ms=draw(gap_ms),
        link_gap_ms=draw(gap_ms),
        memory=draw(st.sampled_from(CHOICES["memory"])),
    )


@st.composite
def cases(draw: st.DrawFn, schedule: str, contention: str | None = None) -> Case:
    graph = draw(st.one_of(graphs(), typed_graphs()))
    units, costs = draw(groupings(graph)), draw(cost_tables(graph))
    device = st.integers(0, len(costs.devices) - 1)
    placement = draw(st.lists(device, min_size=len(units), max_size=len(units)))
    semantics = draw(semantics_of(schedule, contention))
    return Case(units, costs, semantics, np.array(placement, dtype=np.uint8))


def kernel_and_oracle(case: Case) -> tuple[Simulator, Oracle]:
    axes = case.units, case.costs, case.semantics
    return Simulator(*axes), Oracle(*axes)


@pytest.mark.parametrize("contention", CHOICES["contention"])
@repeated(200)
@given(data=st.data())
def test_event_schedules_are_exactly_the_oracles(contention: str, data: st.DataObject) -> None:
    case = data.draw(cases("event", contention))
    kernel, oracle = kernel_and_oracle(case)
    latency, start, finish = kernel.schedule(case.placement)
    assert (latency, start.tolist(), finish.tolist()) == oracle.schedule(case.placement.tolist())
    assert kernel.latency_ms(case.placement) == latency


@pytest.mark.parametrize("contention", CHOICES["contention"])
@repeated(100)
@given(data=st.data())
def test_list_schedules_are_exactly_the_oracles(contention: str, data: st.DataObject) -> None:
    case = data.draw(cases("list", contention))
    kernel, oracle = kernel_and_oracle(case)
    latency, start, finish = kernel.schedule(case.placement)
    assert (latency, start.tolist(), finish.tolist()) == oracle.schedule(case.placement.tolist())
    assert kernel.latency_ms(case.placement) == latency


@repeated(200)
@given(cases("load"))
def test_loads_are_exactly_the_oracles(case: Case) -> None:
    kernel, oracle = kernel_and_oracle(case)
    assert kernel.latency_ms(case.placement) == oracle.latency_ms(case.placement.tolist())


@repeated(200)
@given(cases("serial"))
def test_serial_latencies_are_the_oracles(case: Case) -> None:
    kernel, oracle = kernel_and_oracle(case)
    expected = oracle.latency_ms(case.placement.tolist())
    assert kernel.latency_ms(case.placement) == pytest.approx(expected, rel=1e-12)


@repeated(300)
@given(cases("calls"))
def test_schedules_of_calls_are_the_oracles(case: Case) -> None:
    kernel, oracle = kernel_and_oracle(case)
    latency, start, finish = oracle.schedule(case.placement.tolist())
    found = kernel.schedule(case.placement)
    assert kernel.latency_ms(case.placement) == pytest.approx(latency, rel=1e-12)
    assert found[0] == pytest.approx(latency, rel=1e-12)
    assert found[1].tolist() == pytest.approx(start, rel=1e-12)
    assert found[2].tolist() == pytest.approx(finish, rel=1e-12)


@pytest.mark.parametrize("schedule", CHOICES["schedule"])
@repeated(40)
@given(data=st.data())
def test_a_batch_is_bitwise_its_single_placements(schedule: str, data: st.DataObject) -> None:
    units, costs, semantics, _ = data.draw(cases(schedule))
    kernel = Simulator(units, costs, semantics)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for k in (1, 2, 33, 70):
        batch = rng.integers(0, len(costs.devices), (k, len(units)), dtype=np.uint8)
        singles = [kernel.latency_ms(placement) for placement in batch]
        assert kernel.latencies_ms(batch).tolist() == singles


@repeated(200)
@given(st.data())
def test_submodels_are_counted_as_the_graph_is_cut(data: st.DataObject) -> None:
    graph, n_devices = data.draw(typed_graphs()), data.draw(st.integers(1, 4))
    units = data.draw(groupings(graph))
    device = st.integers(0, n_devices - 1)
    placed = data.draw(st.lists(device, min_size=len(units), max_size=len(units)))
    on = ints(placed)[units.of_operator]
    submodels = acyclic_submodels(graph, on)
    expected = np.bincount(submodel_devices(graph, on, submodels), minlength=n_devices)
    costs = cost_table(graph, np.ones((len(graph), n_devices)), np.ones(len(graph.tensors.source)))
    kernel = Simulator(units, costs, Semantics())
    assert kernel.submodels(np.array(placed, dtype=np.uint8)).tolist() == expected.tolist()


def test_a_graph_in_which_nothing_computes_is_cut_as_the_graph_is() -> None:
    graph = made_graph(2, [(0, [1])], ("Constant", "Result"))
    assert acyclic_submodels(graph, ints([0, 0])).tolist() == [0, 0]
    kernel = Simulator(
        grouped(graph, ints([0, 1])), cost_table(graph, [[1], [1]], [0]), Semantics()
    )
    assert kernel.submodels(np.array([0, 0], dtype=np.uint8)).tolist() == [1]
