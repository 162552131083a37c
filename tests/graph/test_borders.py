# White-box tests of graph
"""Shapes that submodels are told where they do not infer what their readers know."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import make_encoder, make_token_classifier, ones_of
from openvino import opset13 as ops

from placement_gym.graph import (
    acyclic_submodels,
    extract,
    parts,
    separate_parts,
    state_border_shapes,
)
from placement_gym.graph.parts import find_refused, infer_alone, is_refused
from placement_gym.models import load_model


def separate(model: ov.Model, inputs: Any = None) -> dict[str, int]:
    """Part a model with its operators on two devices in turn; the submodel of each node."""
    graph = extract(model, inputs=inputs)
    return separate_parts(model, graph, acyclic_submodels(graph, np.arange(len(graph)) % 2))


def borders_of(model: ov.Model) -> list[ov.Node]:
    return [node for node in model.get_ops() if node.get_friendly_name().endswith("/border")]


@pytest.mark.parametrize(
    ("read", "inferred", "refused"),
    [
        ("[1,?,16]", "[1,?,16]", False),
        ("[1,?,16]", "[?,?,?]", True),
        ("[1,1..,16]", "[1,?,16]", True),
        ("[1,1..8,16]", "[1,1..8,16]", True),
        ("[1,..8,16]", "[1,?,16]", False),
        ("[1,8,16]", "[1,?,16]", True),
        ("[?,?,?]", "[1,8,16]", False),
        ("[?,?]", "...", True),
        ("...", "...", False),
    ],
)
def test_tensors_of_zero_size_are_refused_if_more_is_known(
    read: str, inferred: str, refused: bool
) -> None:
    assert is_refused(ov.PartialShape(read), ov.PartialShape(inferred)) == refused


def test_nonzero_dimension_may_be_zero_behind_a_border() -> None:
    inputs = ones_of({"x": [1, 7, 16]})
    model = load_model(make_token_classifier(), inputs=inputs)
    owner = separate(model, inputs)
    assert find_refused(model, owner, set())
    state_border_shapes(model, owner)
    assert not find_refused(model, owner, set())
    shapes = {str(node.get_output_partial_shape(0)) for node in borders_of(model)}
    assert shapes == {"[1,?,16]", "[1,?,?]"}
    assert {node.get_friendly_name() for node in model.get_ops()} == set(owner)


def test_sizes_given_as_data_are_stated_to_their_readers() -> None:
    x = ops.parameter([-1, 8], np.float32, name="x")
    whole = ops.relu(x, name="whole")
    size = ops.concat([ops.constant([3]), ops.constant([4])], 0, name="size")
    flat = ops.reshape(whole, size, False, name="flat")
    model = ov.Model([ops.result(ops.relu(flat, name="last"))], [x], "sized")
    owner = dict.fromkeys((node.get_friendly_name() for node in model.get_ops()), 0)
    owner |= {"flat": 1, "last": 2, model.get_results()[0].get_friendly_name(): 2}
    state_border_shapes(model, owner)
    assert [node.get_friendly_name() for node in borders_of(model)] == ["flat/0/border"]
    assert infer_alone(model, owner)["flat/0/border", 0].get_partial_shape() == ov.Shape([3, 4])


def test_models_that_need_no_borders_stay_as_they_are() -> None:
    tokens = ones_of({"input_ids": [2, 5]})
    for model, inputs in (
        (load_model("tiny"), None),
        (load_model(make_encoder(), shapes={"input_ids": [1, "1..8"]}), None),
        (load_model(make_encoder(), inputs=tokens), tokens),
    ):
        owner = separate(model, inputs)
        before = len(model.get_ops())
        state_border_shapes(model, owner)
        assert len(model.get_ops()) == before


def test_submodels_that_cannot_be_inferred_go_to_the_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("axes have to be constant")

    monkeypatch.setattr(parts, "infer_alone", refuse)
    inputs = ones_of({"x": [1, 7, 16]})
    model = load_model(make_token_classifier(), inputs=inputs)
    state_border_shapes(model, separate(model, inputs))
    assert not borders_of(model)
