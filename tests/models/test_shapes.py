# White-box tests of cli, models, workloads
from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import ones_of
from openvino import opset13 as ops
from stateful_models import make_cross_attention, make_state_space

from placement_gym.backends.simulated import build_simulated_problem
from placement_gym.base import UserError
from placement_gym.cli.values import parse_shapes
from placement_gym.models import InputReader, ModelSpec, UnsupportedModelError, load_model
from placement_gym.models.shapes import match_inputs
from placement_gym.models.stateful import bind_batch
from placement_gym.workloads.steps import Step, input_shape


def dynamic(shape: tuple[int, ...] = (-1, 4)) -> ov.Model:
    x = ops.parameter(list(shape), np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    weights = np.ones((4, 4), np.float32)
    out = ops.relu(ops.matmul(x, weights, False, False, name="product"), name="relu")
    return ov.Model([ops.result(out)], [x], "dynamic")


def test_unbound_dimension_is_an_error_with_a_remedy_that_helps() -> None:
    with pytest.raises(UnsupportedModelError) as error:
        load_model(dynamic())
    assert "shapes={'x': [1, 4]}" in str(error.value)
    assert '--shape "x[1,4]"' in str(error.value)
    assert load_model(dynamic(), shapes={"x": [1, 4]}).output().shape == [1, 4]


def make_many(n: int) -> ov.Model:
    images = [ops.parameter([-1, 3], np.float32, name=f"image_{i}") for i in range(n)]
    other = ops.parameter([1, 5], np.float32, name="other")
    for port in (*images, other):
        port.output(0).get_tensor().set_names({port.get_friendly_name()})
    joined = ops.concat([*images, other], 1)
    return ov.Model([ops.result(ops.relu(joined))], [*images, other], "many")


def test_many_inputs_are_bound_by_a_pattern_that_a_short_error_names() -> None:
    with pytest.raises(UnsupportedModelError) as error:
        load_model(make_many(50))
    assert "shapes={'image_*': [1, 3]}" in str(error.value)
    assert "and 47 more" in str(error.value)
    assert len(str(error.value)) < 600
    assert load_model(make_many(50), shapes={"image_*": [1, 3]}).output().shape == [1, 155]


def test_the_name_of_a_tensor_goes_before_that_of_another_node() -> None:
    ports = [ops.parameter([-1, 3], np.float32, name=name) for name in ("input0", "image")]
    for port, name in zip(ports, ("image", "mask"), strict=True):
        port.output(0).get_tensor().set_names({name})
    model = ov.Model([ops.result(ops.concat(ports, 1))], ports, "renamed")
    given = {"image": [1, 3], "mask": [2, 3], "input0": [3, 3]}
    assert match_inputs(model, {"image": [1, 3]}, "shapes") == {0: [1, 3]}
    assert match_inputs(model, {"mask": [2, 3], "input0": [3, 3]}, "shapes") == {
        1: [2, 3],
        0: [3, 3],
    }
    assert {name: InputReader(model).find(name) for name in given} == {
        "image": 0, "mask": 1, "input0": 0,
    }  # fmt: skip


def test_inputs_of_one_name_are_named_as_the_loaded_model_names_them() -> None:
    ports = [ops.parameter([size], np.float32, name="x") for size in (2, 3)]
    for port in ports:
        port.output(0).get_tensor().set_names(set())
    model = ov.Model([ops.result(ops.concat(ports, 0))], ports, "equal")
    names = [port.get_node().get_friendly_name() for port in load_model(model).inputs]
    assert len({*names}) == 2
    arrays = {name: np.ones(size, np.float32) for name, size in zip(names, (2, 3), strict=True)}
    assert load_model(model, inputs=arrays).output().shape == [5]


def test_an_input_of_its_own_name_goes_before_a_pattern() -> None:
    given = {"image_1": [1, "1..2"], "i*": [1, "?"]}
    assert match_inputs(make_many(3), given, "shapes") == {
        0: [1, "?"], 1: [1, "1..2"], 2: [1, "?"],
    }  # fmt: skip


def test_input_of_unknown_rank_is_an_error_with_a_remedy() -> None:
    def model() -> ov.Model:
        x = ops.parameter(ov.PartialShape.dynamic(), np.float32, name="x")
        x.output(0).get_tensor().set_names({"x"})
        return ov.Model([ops.result(ops.relu(x, name="relu"))], [x], "unranked")

    with pytest.raises(UnsupportedModelError, match="unknown rank") as error:
        load_model(model())
    assert '--shape "x[1,3,224,224]"' in str(error.value)
    assert "cannot be placed" not in str(error.value)
    with pytest.raises(UserError, match="bind it, as in shapes="):
        load_model(model(), inputs=ones_of({"x": [1, 64]}))
    shapes = parse_shapes("x[1,3,224,224]")
    assert load_model(model(), shapes=shapes).output().shape == [1, 3, 224, 224]


def test_a_dimension_that_the_data_decide_needs_no_size_but_those_of_the_inputs_do() -> None:
    def model(size: int) -> ov.Model:
        x = ops.parameter([size], np.float32, name="x")
        x.output(0).get_tensor().set_names({"x"})
        return ov.Model([ops.result(ops.non_zero(x))], [x], "data")

    assert load_model(model(4)).output().get_partial_shape().is_dynamic
    assert load_model(model(-1), inputs=ones_of({"x": [4]})).output().get_partial_shape().is_dynamic
    with pytest.raises(UnsupportedModelError, match="--inputs"):
        load_model(model(-1))


def test_file_and_simulated_problem_take_shapes(tmp_path: Path) -> None:
    ov.save_model(dynamic(), tmp_path / "model.xml", compress_to_fp16=False)
    twin = build_simulated_problem(ModelSpec(tmp_path / "model.xml", "op", shapes={"x": [3, 4]}))
    assert twin.problem.units.graph.shapes == ((3, 4), (3, 4))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": [1, 4]}, "an input of shapes must be one of"),
        ({"x": [1, 5]}, "cannot have the shapes"),
        ({"x": [1, 4, 1]}, "cannot have the shapes"),
        ({"x": ["a", 4]}, "cannot have the shapes"),
        ({"x": 4}, "list of sizes"),
        ({"x": "[1,4]"}, "list of sizes"),
        ([1, 4], "maps names to sizes"),
    ],
)
def test_shape_that_does_not_fit_is_refused(shapes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_model(dynamic(), shapes=shapes)


def test_generated_graph_refuses_shapes_and_scenario() -> None:
    for kwargs in ({"shapes": {"x": [1]}}, {"scenario": "chat"}):
        with pytest.raises(ValueError, match="OpenVINO models"):
            build_simulated_problem(ModelSpec("synthetic-layered-100", **kwargs))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("input_ids[1,64]", {"input_ids": [1, 64]}),
        ("a[1,?],b/c:0[-1, 1..8]", {"a": [1, "?"], "b/c:0": ["-1", "1..8"]}),
        ("x[]", None),
        ("x", None),
        ("[1,2]", None),
        ("a[1]b[2]", None),
        ("a[1],", None),
    ],
)
def test_command_line_reads_shapes_as_benchmark_app_does(text: str, shapes: Any) -> None:
    if shapes is None:
        with pytest.raises(ArgumentTypeError, match="form"):
            parse_shapes(text)
    else:
        assert parse_shapes(text) == shapes


@pytest.mark.parametrize(
    ("name", "shape", "found"),
    [
        ("input_ids", [-1, -1], (1, 3)),
        ("attention_mask", [-1, -1], (1, 8)),
        ("beam_idx", [-1], (1,)),
        ("embeddings", [2, -1, 64], (2, 3, 64)),
        ("masked_tokens", [-1, -1], (1, 3)),
        ("position_ids", [3, -1, -1], (3, 1, 3)),
        ("cache_position", [-1], (3,)),
    ],
)
def test_dimensions_of_a_stateful_model_keep_their_meaning(
    name: str, shape: list[int], found: tuple[int, ...]
) -> None:
    x = ops.parameter(shape, np.float32, name=name)
    assert input_shape(x.output(0), Step(5, 3), {}) == found


def test_batch_is_not_read_from_coordinates_or_scalars() -> None:
    shapes = {"step": [], "position_ids": [3, -1, 8], "inputs_embeds": [-1, 8, 4]}
    inputs = [ops.parameter(shape, np.float32, name=name) for name, shape in shapes.items()]
    model = ov.Model([ops.result(one) for one in inputs], inputs, "m")
    bind_batch(model)
    assert [list(port.get_shape()) for port in model.inputs] == [[], [3, 1, 8], [1, 8, 4]]


def test_states_of_fixed_size_are_bound_with_the_batch() -> None:
    """OpenVINO's CPU plugin reads wrong values where the state alone has a dynamic batch."""
    own = make_state_space()
    models = (own, load_model(own), load_model(make_cross_attention()))
    shapes = [str(model.get_variables()[0].info.data_shape) for model in models]
    assert shapes == ["[?,4,8]", "[1,4,8]", "[?,?,8]"]


def test_further_dimension_has_to_be_bound() -> None:
    x = ops.parameter([-1, -1, -1], np.float32, name="x")
    with pytest.raises(ValueError, match=r"--shape"):
        input_shape(x.output(0), Step(5, 3), {})
