"""Inputs whose dimensions stay dynamic, and the sizes that they are measured with."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import make_encoder, ones_of
from openvino import opset13 as ops

from placement_gym.backends.simulated import build_simulated_problem
from placement_gym.cli import make_parser
from placement_gym.graph import extract
from placement_gym.models import (
    ModelSpec,
    UnsupportedModelError,
    find_data_shapes,
    load_model,
    raise_to_bounds,
)
from placement_gym.problem.costs import PRESETS
from placement_gym.schedules import Simulator
from placement_gym.workloads import sample_inputs

SIZES = {"input_ids": [2, 5]}
INPUTS = ones_of(SIZES)


def test_dimensions_stay_dynamic_with_inputs() -> None:
    model = load_model(make_encoder(), inputs=INPUTS)
    assert str(model.inputs[0].get_partial_shape()) == "[?,?]"
    assert find_data_shapes(model, SIZES) == {"input_ids": (2, 5)}
    assert [one.shape for one in sample_inputs(model, {"input_ids": (2, 5)})] == [(2, 5)]


def test_graph_has_the_sizes_of_a_model_bound_to_them() -> None:
    dynamic = extract(load_model(make_encoder(), inputs=INPUTS), inputs=INPUTS)
    bound = extract(load_model(make_encoder(), shapes=SIZES))
    assert dynamic.shapes == bound.shapes
    assert dynamic.flops.tolist() == bound.flops.tolist()
    assert dynamic.tensors.size_bytes.tolist() == bound.tensors.size_bytes.tolist()
    assert dynamic.fingerprint() != bound.fingerprint()


def test_a_dimension_with_an_upper_bound_is_measured_at_it() -> None:
    model = load_model(make_encoder(), shapes={"input_ids": [1, "1..8"]})
    assert str(model.inputs[0].get_partial_shape()) == "[1,..8]"  # HETERO begins with zero tokens
    assert find_data_shapes(model) == {"input_ids": (1, 8)}
    assert find_data_shapes(model, {"input_ids": [1, 3]}) == {"input_ids": (1, 3)}
    assert raise_to_bounds(model, {"input_ids": (1, 3)}) == {"input_ids": (1, 8)}
    unbounded = load_model(make_encoder(), inputs=INPUTS)
    assert raise_to_bounds(unbounded, {"input_ids": (2, 5)}) == {"input_ids": (2, 5)}


def test_memory_of_tensors_is_that_of_the_upper_bounds() -> None:
    shapes = {"input_ids": [1, "1..8"]}
    kwargs: dict[str, Any] = {"shapes": shapes, "granularity": "op"}
    short = build_simulated_problem(
        ModelSpec(make_encoder(), **kwargs, inputs=ones_of({"input_ids": [1, 2]}))
    )
    long = build_simulated_problem(ModelSpec(make_encoder(), **kwargs))
    held, moved = [], []
    for twin in (short, long):
        units = twin.problem.units
        simulator = Simulator(units, twin.costs, PRESETS["event"])
        placement = (np.arange(len(units)) % 2).astype(np.uint8)
        held.append(simulator.output_bytes(placement).tolist())
        moved.append(simulator.traffic(placement)[1])
    assert held[0] == held[1]
    assert moved[0] < moved[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tokens": [1, 4]}, "an input of sizes must be one of"),
        ({"input_ids": [1, 9]}, r"has the shape \[1,1..8\]: data of shape \[1,9\] do not fit"),
        ({"input_ids": [1]}, "do not fit"),
        ({"input_ids": [1, "?"]}, "all sizes have to be above 0"),
        ({"input_ids": [1, 0]}, "all sizes have to be above 0"),
        ({"input_ids": 4}, "list of sizes"),
    ],
)
def test_sizes_of_a_file_that_do_not_fit_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_model(make_encoder(), {"input_ids": [1, "1..8"]}, {"data_shapes": given})


def test_unbounded_dimension_is_refused_with_both_remedies() -> None:
    with pytest.raises(UnsupportedModelError) as error:
        load_model(make_encoder())
    for remedy in ('--shape "input_ids[1,1]"', "--inputs inputs.npz"):
        assert remedy in str(error.value)


def test_the_command_line_takes_the_spelling_of_benchmark_app() -> None:
    for spelling in ("--inputs", "-i"):
        options = make_parser().parse_args(["plan", "-m", "x.xml", spelling, "in.npz"])
        assert options.inputs == "in.npz"


def test_bounds_that_do_not_fit_other_inputs_are_refused() -> None:
    x, y = (ops.parameter([-1], np.float32, name=name) for name in "xy")
    for port in (x, y):
        port.output(0).get_tensor().set_names({port.get_friendly_name()})
    model = load_model(
        ov.Model([ops.result(ops.add(ops.relu(x), ops.relu(y)))], [x, y], "pair"),
        shapes={"x": ["1..8"]},
        inputs=ones_of({"x": [3], "y": [3]}),
    )
    with pytest.raises(ValueError, match="equal bounds for equal dimensions"):
        extract(model, inputs=ones_of({"x": [3], "y": [3]}))
