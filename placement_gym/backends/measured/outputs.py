"""Sample inputs for a measurement, and the comparison of its outputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import compress
from math import ceil, floor, log10
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base.errors import UserError
from placement_gym.base.texts import join_words
from placement_gym.models.named_inputs import BEAMS, MASKS, POSITIONS, is_named
from placement_gym.models.scenario import Scenario, Step, input_shape
from placement_gym.models.shapes import input_names
from placement_gym.models.tensors import Input, as_input

if TYPE_CHECKING:
    import openvino as ov


MOST_BY_ROUNDING = 0.1
"""No rounding that a user would accept costs more, relative to the largest value of an output."""
NAMED = 3
"""Operators that a message names."""


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


def sample_steps(
    model: ov.Model,
    scenario: str,
    data_shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> list[list[Input]]:
    """(n_inferences,) the inputs of each inference: one without a scenario.

    They are those of ``sample_inputs``, but that positions count the tokens and each beam
    continues itself.
    """
    if not scenario:
        return [sample_inputs(model, data_shapes)]
    rng = np.random.default_rng(0)
    steps = Scenario.parse(scenario).steps()
    return [[sample_at_step(port, step, rng) for port in model.inputs] for step in steps]


def sample_at_step(port: ov.Output, step: Step, rng: np.random.Generator) -> Input:
    shape, element_type = input_shape(port, step), port.get_element_type()
    counts = element_type.is_integral() and shape
    if counts and is_named(port, POSITIONS):
        return as_input(np.broadcast_to(step.past + np.arange(shape[-1]), shape), element_type)
    if counts and is_named(port, BEAMS):
        return as_input(np.broadcast_to(np.arange(shape[0]), shape), element_type)
    return sample_input(port, shape, rng)


def sample_input(port: ov.Output, shape: tuple[int, ...], rng: np.random.Generator) -> Input:
    element_type = port.get_element_type()
    if is_named(port, MASKS):
        return as_input(np.ones(shape), element_type)
    real = element_type.is_real()
    return as_input(rng.random(shape) if real else rng.integers(0, 2, shape), element_type)


def compare_outputs(
    outputs: Sequence[NDArray[Any]],
    expected: Sequence[NDArray[Any]],
    limit: float,
    steady: Sequence[bool] | None = None,
) -> str:
    """Describe how outputs differ from those expected, beyond ``limit``; empty if they do not.

    Args:
        outputs: (n_outputs,) arrays.
        expected: (n_outputs,) those of the reference device.
        limit: The largest relative error.
        steady: (n_outputs,) whether the reference computes an output again; of others only shapes
            are compared, and None stands for all.
    """
    shapes, wanted = ([array.shape for array in arrays] for arrays in (outputs, expected))
    if shapes != wanted:
        return f"outputs have shapes {shapes}, on the reference device {wanted}"
    if not all_finite(outputs):
        return "outputs differ from the reference: they are NaN or infinite"
    error = error_of_steady(outputs, expected, steady)
    if error <= limit:
        return ""
    differs = f"outputs differ from the reference by {error:.1e} relative, more than {limit:.1e}"
    if error > MOST_BY_ROUNDING:
        return f"{differs}, which rounding alone cannot explain"
    passing = round_up(error)
    return (
        f"{differs}; if rounding alone costs this model that much, "
        f"tolerance={passing} (--tolerance {passing}) accepts it"
    )


def error_of_steady(
    outputs: Sequence[NDArray[Any]],
    expected: Sequence[NDArray[Any]],
    steady: Sequence[bool] | None = None,
) -> float:
    """``relative_error`` of the outputs that can be compared; infinite if shapes differ."""
    if [one.shape for one in outputs] != [one.shape for one in expected]:
        return float("inf")
    kept = [True] * len(expected) if steady is None else steady
    pairs = zip(compress(outputs, kept), compress(expected, kept), strict=True)
    return max((relative_error([one], [other]) for one, other in pairs), default=0.0)


def find_steady(
    outputs: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]], limit: float
) -> list[bool]:
    """(n_outputs,) whether two runs of one model on one device computed the same."""
    pairs = zip(outputs, expected, strict=True)
    return [error_of_steady([one], [other]) <= limit for one, other in pairs]


def describe_unsteady(steady: Sequence[bool], random: Mapping[str, str]) -> str:
    """Say which outputs cannot be compared, why, and what makes them comparable.

    Args:
        steady: (n_outputs,) whether the reference computes an output again; not all do.
        random: Operators that draw random numbers, and their types.
    """
    count = steady.count(False)
    said = f"{count} of {len(steady)} outputs of the reference device change from run to run"
    if not random:
        return (
            f"{said}, though no operator draws random numbers: of these only shapes are "
            "compared. Update the device's driver, or take another reference device"
        )
    listed = join_words([f"{kind} {name!r}" for name, kind in list(random.items())[:NAMED]])
    more = f" and {len(random) - NAMED} more" if len(random) > NAMED else ""
    return (
        f"{said}, because {listed}{more} draw{'s' if len(random) == 1 else ''} random numbers: "
        "of these only shapes are compared. With a seed they are comparable: "
        "node.set_attribute('op_seed', 1) on the operator of the ov.Model"
    )


def round_up(error: float) -> str:
    """The least number with two digits that is not below an error, as in ``"0.017"``."""
    unit = 10.0 ** (floor(log10(error)) - 1)
    return f"{ceil(error / unit) * unit:.2g}"


def check_expected(outputs: Sequence[NDArray[Any]]) -> None:
    """Warn if the reference device's outputs are all zero or empty, raise if they are not finite.

    Raises:
        UserError: They are not finite.
    """
    if not all_finite(outputs):
        raise UserError(
            "on the reference device the model computes NaN or infinite outputs, so no "
            "placement of it can be checked. Floating-point inputs are drawn from [0, 1), "
            "integers are 0 or 1, and masks are all ones if that is their name: call an attention "
            f"mask {MASKS[0]!r}, or repair the model"
        )
    if not any(output.any() for output in outputs):
        empty = not any(output.size for output in outputs)
        warnings.warn(
            f"the model's outputs {'have no elements' if empty else 'are all zero'} on the sample "
            "inputs, so that a placement that computes something else may pass: compare its "
            "outputs with those of one device on inputs of your own before you use it",
            stacklevel=3,
        )


def relative_error(outputs: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> float:
    """Largest difference relative to the largest value, over all outputs; inf if not finite."""
    if not all_finite(outputs):
        return float("inf")
    worst = 0.0
    for output, reference in zip(outputs, expected, strict=True):
        if is_string(reference):
            worst = max(worst, 0.0 if np.array_equal(output, reference) else float("inf"))
            continue
        difference = np.abs(output.astype(np.float64) - reference.astype(np.float64))
        scale = np.abs(reference.astype(np.float64)).max(initial=0.0) or 1.0
        worst = max(worst, float(difference.max(initial=0.0) / scale))
    return worst


def all_finite(outputs: Sequence[NDArray[Any]]) -> bool:
    numbers = (output.astype(np.float64) for output in outputs if not is_string(output))
    return all(bool(np.isfinite(output).all()) for output in numbers)


def is_string(output: NDArray[Any]) -> bool:
    return output.dtype.kind in "US"
