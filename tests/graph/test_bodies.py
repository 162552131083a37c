"""Control flow: what is inside an If, a Loop or a TensorIterator is part of the model."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import openvino as ov
import pytest
from control_flow import (
    MATRIX,
    PAIR,
    TIMES,
    WIDTH,
    branches,
    check_split,
    iterate,
    loop,
    model_of,
    named,
    parameter,
)
from graphs import problem_on
from onnx import TensorProto, helper, numpy_helper
from openvino import opset13 as ops

from placement_gym.base import PlacementGymWarning
from placement_gym.graph import OpGraph, extract, find_random, is_quantized
from placement_gym.hardware import DeviceSpec
from placement_gym.models import load_model
from placement_gym.problem.costs import analytic, operator_times


def count(graph: OpGraph, name: str) -> tuple[int, float]:
    """Bytes and work of an operator."""
    operator = graph.names.index(name)
    return int(graph.weight_bytes[operator]), float(graph.flops[operator])


def test_a_loop_holds_its_body_once_and_runs_it_each_time() -> None:
    x = parameter(1, WIDTH)
    graph = extract(model_of(ops.relu(loop(ops.exp(x), ops.constant(TIMES))), x))
    held, work = count(graph, "loop")
    assert MATRIX <= held < MATRIX + 100
    assert work == TIMES * (2 * WIDTH * WIDTH + 4 * WIDTH)
    device = PAIR[0]
    once = operator_times(graph.bodies[graph.names.index("loop")][0].graph, device).sum()
    assert analytic(graph, PAIR).operator_ms.max() == pytest.approx(TIMES * once, rel=0.05)


def test_an_iterator_runs_once_for_each_slice() -> None:
    rows = parameter(5, WIDTH)
    graph = extract(model_of(ops.relu(iterate(rows)), rows))
    held, work = count(graph, "iterator")
    assert (held, work) == (MATRIX, 5 * 2 * WIDTH * WIDTH)


def test_an_if_holds_both_branches_and_runs_one() -> None:
    x, chosen = parameter(1, WIDTH), ops.parameter([1], bool)
    graph = extract(model_of(ops.relu(branches(chosen, x)), x, chosen))
    assert count(graph, "if") == (3 * MATRIX, 2 * 2 * WIDTH * WIDTH)


def test_bodies_in_bodies_count() -> None:
    x, inner = parameter(1, WIDTH), parameter(1, WIDTH)
    nested = loop(inner, ops.constant(3))
    body = ov.Model([ops.result(nested)], [inner], "outer")
    node = named("outer", ops.tensor_iterator())
    node.set_body(body)
    node.set_sliced_input(
        inner, ops.broadcast(x, ops.constant([4, WIDTH])).output(0), 0, 1, 1, -1, 0
    )
    node.get_concatenated_slices(body.get_results()[0].output(0), 0, 1, 1, -1, 0)
    graph = extract(model_of(ops.relu(node), x))
    held, work = count(graph, "outer")
    assert MATRIX <= held < MATRIX + 100
    assert work == 4 * 3 * (2 * WIDTH * WIDTH + 4 * WIDTH)


def test_a_loop_of_unknown_length_is_said_and_counts_once() -> None:
    x, times = parameter(1, WIDTH), ops.parameter([], np.int64)
    model = model_of(ops.relu(loop(x, times)), x, times)
    with pytest.warns(PlacementGymWarning, match="the data decide how often loop runs"):
        graph = extract(model)
    assert count(graph, "loop")[1] == 2 * WIDTH * WIDTH + 4 * WIDTH
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extract(model_of(ops.relu(loop(x, ops.constant(TIMES))), x))


def test_a_loop_that_draws_numbers_is_not_copied() -> None:
    row = ops.constant(np.ones((1, WIDTH), np.float32))
    for random, expected in ((False, False), (True, True)):
        drawn, x = loop(row, ops.constant(TIMES), random), parameter(1, WIDTH)
        graph = extract(model_of(ops.add(ops.exp(ops.add(x, drawn)), drawn), x))
        assert ("loop" in graph.names) == expected


def test_what_draws_in_a_body_is_found() -> None:
    start, x, choose = parameter(1, WIDTH), parameter(1, WIDTH), ops.parameter([], np.bool_)
    looped = loop(start, ops.constant(TIMES), random=True)
    model = model_of(ops.add(looped, branches(choose, x)), start, x, choose)
    assert find_random(model) == {"loop": "RandomUniform"}


def test_a_limit_counts_what_is_in_a_body() -> None:
    x = parameter(1, WIDTH)
    graph = extract(model_of(ops.relu(loop(ops.exp(x), ops.constant(TIMES))), x))
    problem = problem_on(graph, (DeviceSpec("CPU"), DeviceSpec("GPU", memory_bytes=MATRIX - 1)))
    assert "GPU would hold" in problem.infeasibility(problem.single(1))


def test_compressed_weights_in_a_body_make_a_model_quantized() -> None:
    stored = ops.convert(ops.constant(np.ones((WIDTH, WIDTH), np.int8)), "f32")
    rows = parameter(5, WIDTH)
    assert is_quantized(model_of(iterate(rows, stored), rows))


def conditional(path: Path, outside: bool) -> Path:
    """A network of which an initializer is read in both branches of an If, and maybe outside."""
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    zero = numpy_helper.from_array(np.array(0.0, np.float32), "zero")
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 4]) for n in ("x", "y", "t", "e")
    ]
    then, other = (
        helper.make_graph([helper.make_node(kind, ["a", "w"], [end.name])], end.name, [], [end])
        for kind, end in zip(("MatMul", "Add"), ends[2:], strict=True)
    )
    first = ("MatMul", ["x", "w"]) if outside else ("Relu", ["x"])
    nodes = [
        helper.make_node(*first, ["a"], "first"),
        helper.make_node("ReduceSum", ["a"], ["sum"], "sum", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"], "positive"),
        helper.make_node("If", ["positive"], ["d"], "if", then_branch=then, else_branch=other),
        helper.make_node("Tanh", ["d"], ["y"], "tanh"),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:2], [weight, zero])
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


@pytest.mark.parametrize("outside", [True, False])
def test_a_reader_in_a_branch_is_no_operator(outside: bool, tmp_path: Path) -> None:
    file = conditional(tmp_path / "conditional.onnx", outside)
    graph = extract(load_model(file))
    assert len(graph) == 5
    assert count(graph, "if")[0] == 2 * 4 * 4 * 4
    for model in (load_model(file), ov.Core().read_model(file)):
        check_split(model, [np.ones((4, 4), np.float32)])
