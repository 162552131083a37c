from __future__ import annotations

import numpy as np
import pytest
from testbed import (
    known_model,
)

from placement_gym.backends.measured.outputs import relative_error, sample_inputs


def test_sample_inputs_repeat_and_hide_no_token() -> None:
    first, second = (sample_inputs(known_model("bert-8")) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    names = [port.get_node().get_friendly_name() for port in known_model("bert-8").inputs]
    masks = [value for name, value in zip(names, first, strict=True) if "mask" in name]
    assert masks
    assert all((mask == 1).all() for mask in masks)


def test_relative_error_is_that_of_the_worst_output() -> None:
    ones = np.ones(3, np.float32)
    assert relative_error([ones, ones], [ones, ones]) == 0.0
    found, expected = [1.1 * ones, 2.6 * ones], [ones, 2 * ones]
    for step in (1, -1):
        assert relative_error(found[::step], expected[::step]) == pytest.approx(0.3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("position", [0, 1])
def test_relative_error_of_an_infinite_output_is_infinite(value: float, position: int) -> None:
    expected = [np.ones(3, np.float32), np.ones(3, np.float32)]
    found = [array.copy() for array in expected]
    found[position][1] = value
    assert relative_error(found, expected) == float("inf")
