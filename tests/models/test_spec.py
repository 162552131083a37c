"""One object says which model is placed: checked, comparable, and readable by another process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from foreign_models import make_encoder

from placement_gym.models import ModelSpec, load_model, read_own


def test_equal_specs_are_one_key_whatever_their_shapes() -> None:
    one, other = (ModelSpec("x.xml", "op", shapes={"x": [1, 2]}) for _ in range(2))
    assert {one: "found"}[other] == "found"
    assert one != ModelSpec("x.xml", "op", shapes={"x": [1, 3]})


def test_other_arguments_of_an_environment_are_ignored() -> None:
    kwargs: dict[str, Any] = {"model": "tiny", "graph": "raw", "devices": "CPU", "horizon": 2}
    assert ModelSpec.from_kwargs(kwargs) == ModelSpec("tiny", graph="raw")


def test_a_spec_as_json_is_the_same_spec() -> None:
    spec = ModelSpec(
        Path("x.xml"), "op", "raw", {"x": [-1, 2]}, inputs="inputs.npz", scenario="chat"
    )
    values = json.loads(json.dumps(spec.to_json()))
    assert ModelSpec(**values).to_json() == values
    assert values["model"] == "x.xml"
    assert set(ModelSpec("tiny").to_json()) == {"model", "granularity", "graph"}


def test_a_model_in_memory_keeps_its_bound_shapes_in_a_file() -> None:
    spec = ModelSpec(make_encoder(), shapes={"input_ids": [1, 8]})
    held = spec.with_loaded_model(spec.load())
    with held.as_file() as values:
        assert "shapes" not in values
        read: ov.Model = load_model(values["model"])
    assert list(read.inputs[0].shape) == [1, 8]
    assert ModelSpec("tiny").with_loaded_model(read) == ModelSpec("tiny")


def test_inputs_in_memory_are_a_file_for_another_process() -> None:
    images = [{"image": np.full((1, 3, 64, 64), value)} for value in (0.0, 1.0)]
    model = load_model("tiny")
    with ModelSpec("tiny", inputs=images).as_file() as values:
        json.dumps(values)
        found = read_own(model, values["inputs"])
        assert found.fingerprint == read_own(model, images).fingerprint
    assert not Path(values["inputs"]).exists()
