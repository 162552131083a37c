"""Inputs of every element type: a pipeline takes what OpenVINO takes, and no wrong numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from placement_gym.base import UserError
from placement_gym.models import InputReader, make_tensor, read_values

WHOLE = ("i4", "u2", "u4", "u8", "i8", "u16", "i32", "u64")
REAL = ("bf16", "f16", "f32", "f64", "f8e4m3", "f8e5m2", "f4e2m1", "nf4")
VALUES = np.array([[0, 1, 1, 0, 1]])


def read(kind: str, value: Any) -> Any:
    """What reaches a stage of a model whose input has this element type."""
    x = ops.parameter([1, 5], getattr(ov.Type, kind), name="x")
    (tensor,) = InputReader(ov.Model([ops.result(x)], [x], "m")).read({0: value})
    assert tensor.element_type == getattr(ov.Type, kind)
    return read_values(tensor)


@pytest.mark.parametrize("kind", [*WHOLE, *REAL])
def test_numbers_reach_an_input_of_any_type(kind: str) -> None:
    given: list[Any] = [VALUES, make_tensor(VALUES, getattr(ov.Type, kind))]
    if kind in REAL:
        given.append(VALUES.astype(np.float64))
    for one in given:
        assert np.array_equal(read(kind, one), VALUES)


@pytest.mark.parametrize(("kind", "bits"), [("bf16", np.float16), ("f8e4m3", np.uint8)])
def test_bits_of_a_type_that_numpy_lacks_are_taken_as_they_are(kind: str, bits: Any) -> None:
    tensor = make_tensor(VALUES, getattr(ov.Type, kind))
    assert tensor.data.dtype == bits
    assert np.array_equal(read(kind, tensor.data.copy()), VALUES)


@pytest.mark.parametrize(
    ("kind", "name"), [("bf16", "bfloat16"), ("u4", "uint4"), ("f8e5m2", "float8_e5m2")]
)
def test_types_of_ml_dtypes_are_taken(kind: str, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="an optional library")
    assert np.array_equal(read(kind, VALUES.astype(getattr(ml_dtypes, name))), VALUES)


def test_truths_and_strings_reach_their_inputs() -> None:
    assert np.array_equal(read("boolean", VALUES.astype(bool)), VALUES.astype(bool))
    words = np.array([["a", "bc", "", "ö", "e"]])
    for given in (words, words.astype(object), np.char.encode(words, "utf-8"), ov.Tensor(words)):
        assert np.array_equal(read("string", given), words)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("u4", VALUES + 0.5, "'x' is u4.* not float64"),
        ("u4", VALUES * 16, "u4.* 0 to 16"),
        ("u8", VALUES - 1, "u8.* -1 to 0"),
        ("boolean", VALUES, "'x' is boolean.* not int64"),
        ("string", VALUES, "'x' is string.* not int64"),
        ("bf16", np.zeros((1, 4)), r"'x' has shape \[1,5\]"),
    ],
)
def test_other_values_are_refused_by_name(kind: str, value: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(kind, value)
