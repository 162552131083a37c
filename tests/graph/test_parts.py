# White-box tests of graph
"""What is known without data is copied for each part, whatever operators compute it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino as ov
import pytest
from control_flow import WIDTH, branches, check_split, iterate, loop, parameter
from openvino import opset1 as old
from openvino import opset13 as ops

from placement_gym.graph.parts import Separator
from placement_gym.models import load_model


def matrix(*shape: int) -> ov.Node:
    return ops.constant(np.random.default_rng(0).standard_normal(shape, np.float32))


def square(node: ov.Node) -> ov.Node:
    return ops.reshape(node, ops.constant([WIDTH, WIDTH]), special_zero=False)


def spread(node: ov.Node) -> ov.Node:
    return ops.broadcast(node, ops.constant([WIDTH, WIDTH]))


def interpolate() -> ov.Node:
    options = {"axes": [2, 3], "mode": "nearest", "align_corners": False, "antialias": False}
    options |= {"pads_begin": [0], "pads_end": [0]}
    return old.interpolate(matrix(1, 1, 8, 8), ops.constant([WIDTH, WIDTH]), options)


def count_up() -> ov.Node:
    ends = (0.0, float(WIDTH * WIDTH), 1.0)
    counted = old.range(*(ops.constant(np.float32(end)) for end in ends))
    return ops.multiply(counted, ops.constant(np.float32(1e-3)))


CHAINS: dict[str, Callable[[], ov.Node]] = {
    "If": lambda: spread(branches(ops.constant([True]), matrix(1, WIDTH))),
    "Loop": lambda: spread(loop(matrix(1, WIDTH), ops.constant(3))),
    "TensorIterator": lambda: iterate(matrix(WIDTH, WIDTH)),
    "Broadcast-1": lambda: old.broadcast(matrix(1, WIDTH), ops.constant([WIDTH, WIDTH])),
    "Interpolate-0": lambda: square(interpolate()),
    "Range-0": lambda: square(count_up()),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_parts_read_copies_of_any_chain_on_constants(chain: str) -> None:
    x, shared = parameter(1, WIDTH), CHAINS[chain]()
    node = x
    for _ in range(3):
        node = ops.tanh(ops.matmul(node, shared, False, False))
    model = ov.Model([ops.result(node)], [x], "chain")
    check_split(model, [np.random.default_rng(1).standard_normal((1, WIDTH), np.float32)])


def test_a_chain_that_its_own_part_has_rewired_can_still_be_copied() -> None:
    x = ops.parameter([3, 2], np.float32, name="x")
    size = ops.shape_of(x, name="size")
    first, second = (ops.convert(size, "f32", name=name) for name in ("first", "second"))
    node = x
    for static, name in ((first, "one"), (second, "two"), (second, "three")):
        node = ops.add(node, static, name=name)
    model = load_model(ov.Model([ops.result(node)], [x], "chains"))
    owner = {one.get_friendly_name(): 0 for one in model.get_ops()} | {"one": 1, "three": 1}
    expected = ov.Core().compile_model(model.clone(), "CPU")(np.ones((3, 2), np.float32))[0]
    Separator(model, frozenset({"one", "two", "three"}), owner).apply()
    computed = ov.Core().compile_model(model, "CPU")(np.ones((3, 2), np.float32))[0]
    np.testing.assert_array_equal(computed, expected)


def test_a_chain_that_has_lost_its_readers_can_still_be_copied() -> None:
    x = ops.parameter([3, 2], np.float32, name="x")
    size = ops.shape_of(x, name="size")
    lost = ops.convert(size, "f32", name="lost")
    chain = ops.multiply(lost, ops.constant(np.float32(2)), name="chain")
    node = ops.add(ops.add(x, chain, name="one"), chain, name="two")
    model = load_model(ov.Model([ops.result(node)], [x], "chains"))
    # What the chain of the first part reads is of a third one: it gets a copy, and nothing reads
    # the original any more.
    owner = {one.get_friendly_name(): 0 for one in model.get_ops()} | {"lost": 2, "two": 1}
    expected = ov.Core().compile_model(model.clone(), "CPU")(np.ones((3, 2), np.float32))[0]
    Separator(model, frozenset({"one", "two"}), owner).apply()
    computed = ov.Core().compile_model(model, "CPU")(np.ones((3, 2), np.float32))[0]
    np.testing.assert_array_equal(computed, expected)


def test_what_is_copied_does_not_grow_with_the_square_of_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    depth, cloned, clone = 40, list[int](), ov.Model.clone

    def clone_counted(model: ov.Model) -> ov.Model:
        cloned.append(len(model.get_ops()))
        return clone(model)

    node = x = parameter(1, WIDTH)
    half = ops.constant(np.float32(0.5), name="half")
    for layer in range(depth):
        node = ops.multiply(node, half, name=f"layer{layer}")
    model = load_model(ov.Model([ops.result(node)], [x], "deep"))
    owner = {one.get_friendly_name(): 0 for one in model.get_ops()}
    owner |= {f"layer{layer}": layer for layer in range(depth)}
    monkeypatch.setattr(ov.Model, "clone", clone_counted)
    Separator(model, frozenset(owner) - {"half"}, owner).apply()
    assert len([one for one in model.get_ops() if one.get_type_name() == "Constant"]) == depth
    assert sum(cloned) < 5 * depth
