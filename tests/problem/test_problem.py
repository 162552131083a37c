from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes import diamond_problem
from graphs import TWO_DEVICES, chain, op_graph, op_graphs, problem_on
from hypothesis import given
from hypothesis import strategies as st

from placement_gym.base import IntArray
from placement_gym.graph import OpGraph, group
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Problem, assignment_hash

THREE_DEVICES = (DeviceSpec("CPU"), DeviceSpec("GPU.0"), DeviceSpec("GPU.1"))


def supporting(rows: list[list[bool]], devices: tuple[DeviceSpec, ...] = TWO_DEVICES) -> Problem:
    return Problem(group(chain(len(rows)), "op"), devices, np.array(rows))


def limited(**limits: float) -> Problem:
    """Four units of 1 MB each; only the second device is limited."""
    devices = (DeviceSpec("CPU"), DeviceSpec("GPU", **limits))
    return problem_on(chain(4, weight_bytes=1_000_000), devices)


def moved(problem: Problem, assignment: IntArray) -> list[tuple[int, int]]:
    """Producing unit and destination of each transfer."""
    tensor, destination = problem.transfers(assignment)
    source = problem.units.quotient.tensors.source[tensor]
    return sorted(zip(source.tolist(), destination.tolist(), strict=True))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[True, True], [False, False]], r"'op1'.*granularity='op'"),
        ([[True, False], [False, True]], r"CPU.*CPU_FAST.*whole model"),
    ],
)
def test_what_no_device_runs_is_refused_with_the_remedy(rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        supporting(rows)


def test_reference_is_the_first_device_that_runs_the_whole_model() -> None:
    assert supporting([[True, True], [True, True]]).reference_device == 0
    assert supporting([[True, True], [False, True]]).reference_device == 1


def test_unsupported_unit_is_infeasible_and_named() -> None:
    problem = supporting([[True, True], [True, False]])
    assert problem.infeasibility(np.array([1, 0])) == ""
    reason = problem.infeasibility(np.array([0, 1]))
    assert "CPU_FAST" in reason
    assert "'op1'" in reason


@pytest.mark.parametrize("limits", [{"memory_bytes": 2_000_000}, {"weight_share": 0.5}])
def test_device_may_be_filled_to_its_limit_and_no_further(limits: dict[str, float]) -> None:
    problem = limited(**limits)
    assert problem.memory_bytes(np.array([0, 1, 1, 1])).tolist() == [1_000_000, 3_000_000]
    assert problem.infeasibility(np.array([0, 1, 1, 0])) == ""
    reason = problem.infeasibility(np.array([0, 1, 1, 1]))
    for said in ("GPU", "2.0 MB", "3.0"):
        assert said in reason
    assert problem.single(0).tolist() == [0] * 4
    assert problem.infeasibility(problem.single(0)) == ""  # the first device has no limit
    assert problem.limits_bytes.tolist() == [np.inf, 2_000_000]
    assert limited(memory_bytes=0).limits_bytes.tolist() == [np.inf, 0.0]


def test_memory_of_a_model_is_all_its_weights(graph_of: Callable[[str, str], OpGraph]) -> None:
    graph = graph_of("resnet", "folded")
    problem = problem_on(graph, granularity="colocated")
    half = np.arange(problem.n_units) % 2
    assert problem.memory_bytes(half).sum() == graph.weight_bytes.sum()


def test_tensor_moves_once_to_each_other_destination() -> None:
    fan = op_graph(5, [(0, 1), (0, 2), (0, 3), (0, 4)])
    problem = problem_on(fan, THREE_DEVICES)
    assert moved(problem, np.array([0, 1, 1, 2, 0])) == [(0, 1), (0, 2)]
    assert moved(problem, problem.single(1)) == []


def test_two_ports_of_one_unit_move_separately() -> None:
    graph = op_graph(4, [(0, 1), (0, 3), (1, 2), (1, 3)])
    units = group(graph, "fused", {"op0": "a", "op1": "a", "op2": "b", "op3": "b"})
    problem = Problem(units, TWO_DEVICES, np.ones((2, 2), dtype=np.bool_))
    assert moved(problem, np.array([0, 1])) == [(0, 1), (0, 1)]


@given(op_graphs(), st.data())
def test_transfers_are_the_crossing_edges_without_repetition(
    graph: OpGraph, data: st.DataObject
) -> None:
    problem = problem_on(graph, THREE_DEVICES)
    drawn = st.lists(st.integers(0, 2), min_size=len(graph), max_size=len(graph))
    devices = data.draw(drawn)
    crossing = {(a, devices[b]) for a, b in graph.edge_index.T.tolist() if devices[a] != devices[b]}
    assert moved(problem, np.array(devices)) == sorted(crossing)


def test_fingerprint_changes_with_the_grouping(graph_of: Callable[[str, str], OpGraph]) -> None:
    graph = graph_of("tiny", "folded")
    by_op, colocated = (problem_on(graph, granularity=g) for g in ("op", "colocated"))
    assert by_op.fingerprint() == problem_on(graph).fingerprint() != colocated.fingerprint()


def test_assignment_hash_depends_on_values_not_on_integer_type() -> None:
    assignment = np.array([0, 1, 1])
    assert assignment_hash(assignment) == assignment_hash(assignment.astype(np.int32))
    assert assignment_hash(assignment) != assignment_hash(np.array([1, 1, 0]))


@pytest.mark.parametrize("wrong", [[0, 0, 0, 2], [0, 0, 0, -1], [0, 0, 0], [0, 0, 0, 0, 0]])
def test_an_invalid_assignment_is_refused_before_anything_runs(wrong: list[int]) -> None:
    with pytest.raises(ValueError, match="4 device indices from 0 to 1"):
        diamond_problem().infeasibility(np.array(wrong))
