"""Models with control flow, and their splits: If, Loop and TensorIterator over products."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from graphs import problem_on
from numpy.typing import NDArray
from openvino import opset13 as ops

import placement_gym
from placement_gym.graph import extract
from placement_gym.hardware import resolve_devices
from placement_gym.models import load_model
from placement_gym.problem import Placement

WIDTH, TIMES = 64, 20
"""Of a row, and iterations of a loop."""
MATRIX = WIDTH * WIDTH * 4
PAIR = resolve_devices("cpu-testbed-pair", "measured")


def parameter(*shape: int) -> ov.Node:
    return ops.parameter(shape, np.float32)


def product(data: ov.Node, seed: int = 0, random: bool = False) -> ov.Node:
    matrix = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH), np.float32) / 8
    row = ops.matmul(data, ops.constant(matrix), False, False)
    if random:
        low, high = ops.constant(np.float32(0.0)), ops.constant(np.float32(1.0))
        return ops.add(row, ops.random_uniform(ops.constant([1, WIDTH]), low, high, "f32"))
    return row


def model_of(output: ov.Node, *inputs: ov.Node) -> ov.Model:
    return load_model(ov.Model([ops.result(output)], list(inputs), "model"))


def loop(start: ov.Node, times: ov.Node, random: bool = False) -> ov.Node:
    """A product and a ``Tanh``, ``times`` times."""
    inner = parameter(1, WIDTH)
    row = ops.tanh(product(inner, random=random))
    goes_on = ops.constant(True, dtype=bool)
    body = ov.Model([ops.result(row), ops.result(goes_on)], [inner], "body")
    node = ops.loop(times, ops.constant(True, dtype=bool))
    node.set_function(body)
    node.set_merged_input(inner, start.output(0), row.output(0))
    node.set_special_body_ports([-1, 1])
    node.get_iter_value(body.get_results()[0].output(0), -1)
    return named("loop", node)


def branches(condition: ov.Node, data: ov.Node) -> ov.Node:
    """Two products in one branch, one in the other."""
    then, other = parameter(1, WIDTH), parameter(1, WIDTH)
    node = ops.if_op(condition.output(0))
    two = ov.Model([ops.result(product(product(then, 1), 2))], [then], "two")
    one = ov.Model([ops.result(product(other, 3))], [other], "one")
    node.set_then_body(two)
    node.set_else_body(one)
    node.set_input(data.output(0), then, other)
    node.set_output(two.get_results()[0], one.get_results()[0])
    return named("if", node)


def iterate(rows: ov.Node, weights: ov.Node | None = None) -> ov.Node:
    """A product for each of the rows, with other weights if these are given."""
    inner = parameter(1, WIDTH)
    row = product(inner) if weights is None else ops.matmul(inner, weights, False, False)
    body = ov.Model([ops.result(row)], [inner], "body")
    node = ops.tensor_iterator()
    node.set_body(body)
    node.set_sliced_input(inner, rows.output(0), 0, 1, 1, -1, 0)
    node.get_concatenated_slices(body.get_results()[0].output(0), 0, 1, 1, -1, 0)
    return named("iterator", node)


def named(name: str, node: ov.Node) -> ov.Node:
    node.set_friendly_name(name)
    return node


def check_split(model: ov.Model, inputs: list[NDArray[Any]]) -> None:
    """Alternate operators between two devices, and compare with the model on one."""
    problem = problem_on(extract(load_model(model)), PAIR)
    placement = Placement.from_assignment(problem, np.arange(problem.n_units) % 2)
    exact, core = {"INFERENCE_PRECISION_HINT": "f32"}, ov.Core()
    expected = core.compile_model(model, "CPU", exact)(inputs)[0]
    split = placement_gym.compile_model(core, model, placement)(inputs)[0]
    np.testing.assert_allclose(split, expected, rtol=1e-4, atol=1e-5)
    request = placement_gym.compile_stages(core, model, placement).create_infer_request()
    request.infer(inputs)
    np.testing.assert_allclose(request.output_tensors[0].data, expected, rtol=1e-4, atol=1e-5)
