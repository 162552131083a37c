"""Inputs to measure a model with."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.models.named_inputs import MASKS, is_named
from placement_gym.models.shapes import input_names
from placement_gym.models.tensors import Input, as_input

if TYPE_CHECKING:
    import openvino as ov


def sample_inputs(
    model: ov.Model, data_shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> list[Input]:
    """One array per input, the same each time: floats in [0, 1), integers 0 or 1, masks all ones.

    Small integers are valid indices for every embedding; a random mask could hide every token.
    """
    rng = np.random.default_rng(0)
    shapes = [data_shapes.get(input_names(port)[0]) for port in model.inputs]
    return [
        sample_input(port, shape or tuple(port.get_shape()), rng)
        for port, shape in zip(model.inputs, shapes, strict=True)
    ]


def sample_input(port: ov.Output, shape: tuple[int, ...], rng: np.random.Generator) -> Input:
    element_type = port.get_element_type()
    if is_named(port, MASKS):
        return as_input(np.ones(shape), element_type)
    real = element_type.is_real()
    return as_input(rng.random(shape) if real else rng.integers(0, 2, shape), element_type)
