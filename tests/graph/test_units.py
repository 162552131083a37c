# White-box tests of backends.measured
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino as ov
import pytest
from graphs import GraphOf, chain, is_topological, op_graph, op_graphs
from hypothesis import given
from hypothesis import strategies as st

from placement_gym.backends.measured.counters import query_primitives
from placement_gym.graph import OpGraph, Units, group
from placement_gym.models import GRANULARITIES

UnitsOf = Callable[[str, str, str], Units]


@pytest.fixture(scope="module")
def units_of(built: Callable[[str], ov.Model], graph_of: GraphOf) -> UnitsOf:
    def make(name: str, granularity: str, view: str = "folded") -> Units:
        graph = graph_of(name, view)
        if granularity != "fused":
            return group(graph, granularity)
        properties = {"INFERENCE_PRECISION_HINT": "f32"}
        return group(graph, "fused", query_primitives(ov.Core(), built(name), "CPU", properties))

    return make


def unit_sets(units: Units) -> set[frozenset[int]]:
    """Units as sets of operators."""
    groups: dict[int, set[int]] = {}
    for operator, unit in enumerate(units.of_operator.tolist()):
        groups.setdefault(unit, set()).add(operator)
    return {frozenset(operators) for operators in groups.values()}


def unit_named(units: Units, operator: str) -> int:
    return int(units.of_operator[units.graph.names.index(operator)])


def check_quotient(units: Units) -> None:
    """What holds for any grouping: an acyclic quotient that loses nothing."""
    graph, quotient, of = units.graph, units.quotient, units.of_operator
    assert sorted(set(of.tolist())) == list(range(len(units)))
    assert is_topological(quotient.edge_index)
    crossing = {(of[a], of[b]) for a, b in graph.edge_index.T.tolist() if of[a] != of[b]}
    assert set(map(tuple, quotient.edge_index.T.tolist())) == crossing
    assert quotient.weight_bytes.sum() == graph.weight_bytes.sum()
    assert quotient.flops.sum() == pytest.approx(graph.flops.sum())
    assert sorted(sum(quotient.members, ())) == sorted(sum(graph.members, ()))
    assert len(set(units.names)) == len(units)
    assert quotient.inputs == tuple(
        tuple(sorted({int(of[operator]) for operator in readers})) for readers in graph.inputs
    )


def test_paper_counts_237_colocated_groups_on_resnet(units_of: UnitsOf) -> None:
    assert len(units_of("resnet-fp16", "colocated", "raw")) == 237


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("name", ["tiny", "resnet", "bert-8"])
def test_quotient_of_a_model_is_acyclic_and_complete(
    units_of: UnitsOf, name: str, granularity: str
) -> None:
    check_quotient(units_of(name, granularity, "folded"))


@pytest.mark.parametrize("granularity", ["op", "colocated"])
def test_quotient_of_a_raw_graph_is_acyclic_and_complete(
    units_of: UnitsOf, granularity: str
) -> None:
    check_quotient(units_of("resnet-fp16", granularity, "raw"))


@given(graph=op_graphs())
def test_op_keeps_each_operator_alone(graph: OpGraph) -> None:
    units = group(graph, "op")
    assert units.of_operator.tolist() == list(range(len(graph)))
    assert units.names == graph.names
    check_quotient(units)


@given(graph=op_graphs())
def test_colocated_joins_only_children_to_their_only_parents(graph: OpGraph) -> None:
    units = group(graph, "colocated")
    check_quotient(units)
    joined = {
        (a, b)
        for a, b in graph.edge_index.T.tolist()
        if graph.out_degree()[a] == 1 and graph.in_degree()[b] == 1
    }
    inside = {
        (a, b)
        for a, b in graph.edge_index.T.tolist()
        if units.of_operator[a] == units.of_operator[b]
    }
    assert inside == joined
    assert len(units) == len(graph) - len(joined)


def test_unit_is_named_by_its_heaviest_operator(units_of: UnitsOf) -> None:
    units = units_of("resnet", "colocated", "folded")
    graph = units.graph
    for unit, name in enumerate(units.names):
        operators = np.flatnonzero(units.of_operator == unit)
        assert graph.flops[graph.names.index(name)] == graph.flops[operators].max()
    convolutions = {graph.types[graph.names.index(name)] for name in units.names}
    assert "Convolution" in convolutions
    assert len(set(units.names)) == len(units)


def test_unit_has_type_and_shape_of_its_last_operator(units_of: UnitsOf) -> None:
    units = units_of("tiny", "colocated", "folded")
    last = {unit: op for op, unit in enumerate(units.of_operator.tolist())}
    for unit, operator in last.items():
        assert units.quotient.types[unit] == units.graph.types[operator]
        assert units.quotient.shapes[unit] == units.graph.shapes[operator]


@given(graph=op_graphs(), data=st.data())
def test_fused_stays_acyclic_whatever_the_device_fuses(graph: OpGraph, data: st.DataObject) -> None:
    kernels = st.sampled_from(["a", "b", "c", "d"])
    primitives = data.draw(st.dictionaries(st.sampled_from(graph.names), kernels))
    units = group(graph, "fused", primitives)
    check_quotient(units)
    for kernel in set(primitives.values()):
        operators = [i for i, name in enumerate(graph.names) if primitives.get(name) == kernel]
        assert len(set(units.of_operator[operators].tolist())) == 1


@pytest.mark.parametrize(
    ("n", "edges", "primitives", "expected"),
    [
        pytest.param(4, [(0, 1), (1, 2), (2, 3)], "abac", [{0, 1, 2}, {3}], id="a circle"),
        pytest.param(4, [(0, 1), (1, 2), (2, 3)], "aabb", [{0, 1}, {2, 3}], id="no circle"),
        pytest.param(3, [(0, 1), (1, 2)], "a b", [{0}, {1, 2}], id="unmapped joins its consumer"),
        pytest.param(3, [(0, 1), (0, 2)], " ab", [{0, 1}, {2}], id="unmapped joins the first"),
    ],
)
def test_fused_merges_primitives_and_circles(
    n: int, edges: list[tuple[int, int]], primitives: str, expected: list[set[int]]
) -> None:
    named = {f"op{i}": name for i, name in enumerate(primitives) if name != " "}
    assert unit_sets(group(op_graph(n, edges), "fused", named)) == set(map(frozenset, expected))


def test_convolution_bias_and_activation_are_one_fused_unit(units_of: UnitsOf) -> None:
    units = units_of("tiny", "fused", "folded")
    parts = ("stem/conv", "stem/add", "stem/relu")
    assert len({unit_named(units, part) for part in parts}) == 1
    assert unit_named(units, "stem/conv") != unit_named(units, "pool")


def test_resnet_runs_as_57_fused_primitives(units_of: UnitsOf) -> None:
    assert len(units_of("resnet", "fused", "folded")) == pytest.approx(57, abs=3)


def test_tensor_read_inside_its_own_unit_does_not_leave_it() -> None:
    graph = op_graph(4, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)])
    primitives = {"op0": "a", "op1": "a", "op2": "b", "op3": "c"}
    tensors = group(graph, "fused", primitives).quotient.tensors
    tensor, reader = tensors.readings()
    assert list(zip(tensors.source[tensor], reader, strict=True)) == [
        (0, 1),
        (0, 1),
        (0, 2),
        (1, 2),
    ]


def test_fused_without_primitives_is_refused() -> None:
    with pytest.raises(ValueError, match="primitives"):
        group(chain(2), "fused")


def test_primitives_are_told_for_every_convolution(
    built: Callable[[str], ov.Model], graph_of: GraphOf
) -> None:
    graph = graph_of("tiny", "folded")
    found = query_primitives(ov.Core(), built("tiny"), "CPU", {})
    convolutions = np.array(graph.names)[np.array(graph.types) == "Convolution"]
    assert len({found[name] for name in convolutions}) == len(convolutions) == 3
