"""The comparison of a placement's outputs with those of the reference device."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import compress
from math import ceil, floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base.errors import UserError
from placement_gym.base.texts import join_words
from placement_gym.models.named_inputs import MASKS

MOST_BY_ROUNDING = 0.1
"""No rounding that a user would accept costs more, relative to the largest value of an output."""
NAMED = 3
"""Operators that a message names."""


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
