"""Inputs of the user's own: files and arrays, samples, and what does not fit."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray
from openvino import opset13 as ops

from placement_gym.base import UserError
from placement_gym.models import (
    inputs_of,
    load_model,
    make_tensor,
    read_older,
    read_own,
    save_inputs,
)
from placement_gym.workloads import make_request


def make_model(**types: str) -> ov.Model:
    """An input of two numbers for each name and type."""
    inputs = [
        ops.parameter([1, 2], getattr(ov.Type, kind), name=name) for name, kind in types.items()
    ]
    for one in inputs:
        one.output(0).get_tensor().set_names({one.get_friendly_name()})
    return ov.Model([ops.result(one) for one in inputs], inputs, "model")


PAIR = {"x": np.array([[0.5, 1.5]], np.float32), "ids": np.array([[3, 4]])}


def pair() -> ov.Model:
    return make_model(x="f32", ids="i64")


def write_npz(folder: Path) -> Path:
    np.savez(folder / "inputs.npz", **PAIR)
    return folder / "inputs.npz"


def write_npy(folder: Path) -> Path:
    for name, array in PAIR.items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.mark.parametrize("write", [write_npz, write_npy])
def test_files_hold_what_a_mapping_holds(write: Any, tmp_path: Path) -> None:
    stored, given = read_own(pair(), write(tmp_path)), read_own(pair(), PAIR)
    assert stored.fingerprint == given.fingerprint
    assert [value.tolist() for value in stored.samples[0].values()] == [[[0.5, 1.5]], [[3, 4]]]
    assert read_own(pair(), None).fingerprint == ""


def test_samples_have_an_axis_of_their_own_or_a_mapping_each() -> None:
    stacked = {"x": np.arange(6.0).reshape(3, 1, 2), "ids": PAIR["ids"]}
    listed = [{**PAIR, "x": x} for x in stacked["x"]]
    first, second = read_own(pair(), stacked), read_own(pair(), listed)
    assert first.fingerprint == second.fingerprint
    assert [sample[0].tolist() for sample in first.samples] == [[[0, 1]], [[2, 3]], [[4, 5]]]
    assert all(sample[1].tolist() == [[3, 4]] for sample in first.samples)
    assert first.fingerprint != read_own(pair(), listed[:2]).fingerprint


def test_sizes_of_dynamic_inputs_are_those_of_the_first_sample() -> None:
    model = pair()
    model.reshape({"x": [1, -1]})
    own = read_own(model, [{**PAIR, "x": np.ones((1, size))} for size in (5, 7)])
    assert own.sizes == {"x": (1, 5)}


def test_sizes_of_every_sample_have_to_fit_each_other() -> None:
    x, y = (ops.parameter([1, -1], np.float32, name=name) for name in "xy")
    model = ov.Model([ops.result(ops.add(x, y))], [x, y], "sum")
    fits, contradicts = ({"x": np.ones((1, 5)), "y": np.ones((1, size))} for size in (5, 4))
    load_model(model, inputs=[fits, {name: value[:, :3] for name, value in fits.items()}])
    for given in ([contradicts], [fits, contradicts]):
        with pytest.raises(UserError, match=r"'x': \(1, 5\), 'y': \(1, 4\)"):
            load_model(model, inputs=given)


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ({}, ["'x' and 'ids' are missing", "'x' of f32 [1,2]", "'ids' of i64 [1,2]"]),
        ({"x": np.ones((1, 3)), "idz": 1}, ["[1,2]", "(1, 3)", "did you mean 'ids'", "is missing"]),
        ({**PAIR, "ids": np.ones((1, 2))}, ["'ids' is i64", "not float64"]),
        ({"x": np.ones((3, 1, 2)), "ids": np.ones((2, 1, 2), int)}, ["3 samples", "2 samples"]),
        ({"x": np.ones((0, 1, 2)), "ids": PAIR["ids"]}, ["0 samples of 'x'"]),
        ([], ["a list of such mappings"]),
        (np.ones(3), ["a list of such mappings"]),
        ("nowhere.npz", ["no inputs 'nowhere.npz'"]),
    ],
)
def test_what_does_not_fit_is_listed_with_what_the_model_takes(
    given: Any, messages: list[str]
) -> None:
    with pytest.raises(UserError) as error:
        read_own(pair(), given, complete=True)
    for message in messages:
        assert message in str(error.value)


def as_npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write_damaged(path: Path) -> None:
    path.write_bytes(write_npz(path.parent).read_bytes()[:200])


@pytest.mark.parametrize(
    "write",
    [
        write_damaged,
        lambda path: path.write_text("x"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(as_npy(PAIR["x"])),
        lambda path: np.savez(path, x=np.array([None])),
    ],
)  # fmt: skip
def test_a_file_without_named_arrays_is_a_users_error(write: Any, tmp_path: Path) -> None:
    write(tmp_path / "damaged.npz")
    with pytest.raises(UserError, match=r"cannot read inputs from .*numpy\.savez"):
        read_own(pair(), tmp_path / "damaged.npz")


def test_a_folder_without_arrays_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="save an array for each input"):
        read_own(pair(), tmp_path)


@pytest.mark.parametrize("count", [1, 2])
def test_inputs_that_are_saved_are_read_again(count: int, tmp_path: Path) -> None:
    model = make_model(file="bf16", half="f16", four="u4", text="string", byte="i8")
    kinds = [port.get_element_type() for port in model.inputs]
    arrays = [[[0.5, 2.0]], [[1.0, 2.0]], [[3, 4]], [["a", "b"]], [[5, 6]]]
    values = [make_tensor(np.array(a), kind) for a, kind in zip(arrays, kinds, strict=True)]
    names = [port.get_any_name() for port in model.inputs]
    given = [dict(zip(names, values, strict=True))] * count
    save_inputs([given[0]] * 3, tmp_path / "inputs")  # of a run before, in the same folder
    again = read_own(model, save_inputs(given, tmp_path / "inputs"))
    assert again.fingerprint == read_own(model, given).fingerprint
    assert [array.tolist() for array in again.samples[-1].values()] == arrays
    assert pickle.loads(pickle.dumps(again)).fingerprint == again.fingerprint


def test_numbers_that_the_type_cannot_hold_are_refused() -> None:
    with pytest.raises(UserError, match=r"'x' is f32, which cannot hold .* to 1e\+39"):
        read_own(pair(), {"x": np.array([[0.0, 1e39]])})
    assert read_own(pair(), {"x": np.array([[0.0, np.inf]])}).samples


def test_models_of_a_union_take_their_own() -> None:
    given = [{"a/x": 1, "b/x": 2}]
    assert inputs_of(given, "b") == [{"x": 2}]
    assert inputs_of({"data_shapes": {"a/x": [1], "b/y": [2]}}, "b") == {"data_shapes": {"y": [2]}}
    assert inputs_of(None, "b") is None
    union = load_model(["tiny", "tiny"])
    image = np.ones((1, 3, 64, 64), np.float32)
    names = [port.get_node().get_friendly_name() for port in union.inputs]
    own = read_own(union, dict.fromkeys(names, image))
    assert len(own.samples[0]) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("image", "a model of inputs .* must be one of tiny, tiny_2, not 'image'"),
        ("tiny_2/image", "'tiny/image' is missing"),
    ],
)
def test_inputs_of_a_union_are_named_with_their_model(name: str, message: str) -> None:
    given = {name: np.ones((1, 3, 64, 64))}
    with pytest.raises(UserError, match=message):
        make_request(load_model(["tiny", "tiny"], inputs=given), inputs=given)


def test_arguments_of_older_files_mean_what_they_meant() -> None:
    sizes = {"x": [1, 5]}
    assert read_older({"model": "m", "data_shapes": sizes}) == {
        "model": "m",
        "inputs": {"data_shapes": sizes},
    }
    assert read_older({"model": "m"}) == {"model": "m"}
    assert read_own(pair(), {"data_shapes": sizes}).sizes == sizes
