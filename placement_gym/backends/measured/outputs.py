"""The comparison of a placement's outputs with those of the reference device, and its tolerance.

In f32 a split hardly changes outputs. It changes them on devices of lower precision; in quantised
models, where activations may round to the next level; and where integers overflow in some submodel.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from math import ceil, floor, log10
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import UserError, join_words
from placement_gym.graph import is_quantized
from placement_gym.hardware import DeviceSpec
from placement_gym.models import MASKS, Input
from placement_gym.workloads import Inputs, Outputs, read_outputs

if TYPE_CHECKING:
    import openvino as ov

OutputArrays = Sequence[NDArray[Any]]
"""(n_outputs,) arrays."""
F32_TOLERANCE = 1e-4
"""Relative error of outputs in f32. Hand-tuned: far above what sums in another order change."""
LOW_PRECISION_TOLERANCE = 3e-2
"""Relative error of bf16 and f16 devices, and of quantised models whose rounding is not measured:
bf16 has about 2.4 digits, and errors add up over the layers."""
N_PERTURBATIONS = 5
"""Inferences on randomly changed inputs. Hand-tuned."""
SAFETY_FACTOR = 3.0
"""Tolerance over the largest error of ``N_PERTURBATIONS``. Hand-tuned: placements round at other
operators than the reference device."""
MAX_ROUNDING_ERROR = 0.1
"""Relative error beyond what a user accepts of rounding. Hand-tuned."""
MAX_NAMED_OPERATORS = 3
"""Operators that a message names: it fits two lines of a terminal."""


def compare_outputs(
    outputs: OutputArrays,
    expected: OutputArrays,
    limit: float,
    steady: Sequence[bool] | None = None,
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """Describe how outputs differ from those expected by more than ``limit``; empty if they do not.

    Only shapes of outputs that are not ``steady`` are compared. ``chosen`` has the errors of the
    placement's choices if ``expected`` were computed for them.
    """
    worst = max(chosen, key=lambda name: chosen[name], default="")
    if worst and chosen[worst] > limit:
        return (
            f"{worst} chooses otherwise than on the reference device: the values that it picks are "
            f"off by {chosen[worst]:.1e} relative, more than {limit:.1e}"
        )
    shapes, expected_shapes = ([array.shape for array in arrays] for arrays in (outputs, expected))
    if shapes != expected_shapes:
        return f"outputs have shapes {shapes}, on the reference device {expected_shapes}"
    if not all_finite(outputs):
        return "outputs differ from the reference: they are NaN or infinite"
    error = error_of_steady(outputs, expected, steady)
    if error <= limit:
        return ""
    differs = f"outputs differ from the reference by {error:.1e} relative, more than {limit:.1e}"
    if error > MAX_ROUNDING_ERROR:
        # Another label or index may be as good, however far its number is.
        real = not chosen and all(array.dtype.kind == "f" for array in expected)
        return f"{differs}, which rounding alone cannot explain" if real else differs
    passing = round_up(error)
    return (
        f"{differs}; if this model loses that much by rounding alone, "
        f"pass tolerance={passing} (--tolerance {passing})"
    )


def error_of_steady(
    outputs: OutputArrays, expected: OutputArrays, steady: Sequence[bool] | None = None
) -> float:
    """``relative_error`` of the steady outputs; infinite if any shapes differ."""
    if [array.shape for array in outputs] != [array.shape for array in expected]:
        return float("inf")
    if steady is not None:
        outputs, expected = [*compress(outputs, steady)], [*compress(expected, steady)]
    return relative_error(outputs, expected)


def find_steady(outputs: OutputArrays, expected: OutputArrays, limit: float) -> list[bool]:
    """(n_outputs,) whether two runs on one device computed the same."""
    pairs = zip(outputs, expected, strict=True)
    return [error_of_steady([first], [second]) <= limit for first, second in pairs]


def describe_unsteady(steady: Sequence[bool], random: Mapping[str, str]) -> str:
    """Describe outputs that are not steady, the ``random`` operators (name -> type), a remedy."""
    count = steady.count(False)
    change = f"{count} of {len(steady)} outputs of the reference device change from run to run"
    if not random:
        return (
            f"{change}, though no operator draws random numbers: of these only shapes are "
            "compared. Update the device's driver, or take another reference device"
        )
    named = [f"{kind} {name!r}" for name, kind in random.items()]
    if len(named) > MAX_NAMED_OPERATORS:
        named[MAX_NAMED_OPERATORS:] = [f"{len(named) - MAX_NAMED_OPERATORS} more"]
    return (
        f"{change}, because {join_words(named)} draw{'s' if len(named) == 1 else ''} random "
        "numbers: of these only shapes are compared. To compare them, set a seed: "
        "node.set_attribute('op_seed', 1) on the operator of the ov.Model"
    )


def round_up(error: float) -> str:
    """Round an error up to two significant digits, as in ``"0.017"``."""
    unit = 10.0 ** (floor(log10(error)) - 1)
    return f"{ceil(error / unit) * unit:.2g}"


def check_expected(outputs: OutputArrays) -> None:
    """Check that the reference device's outputs are finite; warn if all are zero or empty."""
    if not all_finite(outputs):
        raise UserError(
            "on the reference device the model computes NaN or infinite outputs, so no "
            "placement of it can be checked. Give inputs of your own, --inputs inputs.npz "
            "(inputs='inputs.npz'); generated ones are in [0, 1), and masks all ones if that is "
            f"their name: call an attention mask {MASKS[0]!r}, or repair the model"
        )
    if not any(output.any() for output in outputs):
        empty = not any(output.size for output in outputs)
        warnings.warn(
            f"the model's outputs {'have no elements' if empty else 'are all zero'} on the sample "
            "inputs, so a placement that computes something else may pass: give inputs of "
            "your own, --inputs inputs.npz (inputs='inputs.npz')",
            stacklevel=3,
        )


def relative_error(outputs: OutputArrays, expected: OutputArrays) -> float:
    """Largest difference relative to an output's largest value; inf if outputs are not finite."""
    if not all_finite(outputs):
        return float("inf")
    worst = 0.0
    for output, reference in zip(outputs, expected, strict=True):
        if is_string(reference):
            worst = max(worst, 0.0 if np.array_equal(output, reference) else float("inf"))
            continue
        exact = reference.astype(np.float64)
        worst = max(worst, relative_to(exact, output.astype(np.float64) - exact))
    return worst


def relative_to(values: NDArray[Any], difference: NDArray[Any]) -> float:
    """The largest difference relative to the largest value."""
    scale = np.abs(values).max(initial=0.0) or 1.0
    return float(np.abs(difference).max(initial=0.0) / scale)


def all_finite(outputs: OutputArrays) -> bool:
    numbers = (output.astype(np.float64) for output in outputs if not is_string(output))
    return all(bool(np.isfinite(output).all()) for output in numbers)


def is_string(output: NDArray[Any]) -> bool:
    return output.dtype.kind in "US"


def find_tolerance(
    model: ov.Model, devices: Sequence[DeviceSpec], find_rounding: Callable[[], float | None]
) -> float:
    """The default tolerance by the precision of devices; by rounding too in a quantised model."""
    exact = all(device.precision == "f32" for device in devices)
    minimum = F32_TOLERANCE if exact else LOW_PRECISION_TOLERANCE
    if not is_quantized(model):
        return minimum
    rounding = find_rounding()
    if rounding is None:
        return LOW_PRECISION_TOLERANCE
    return max(minimum, min(SAFETY_FACTOR * rounding, MAX_ROUNDING_ERROR))


def measure_rounding(
    request: ov.InferRequest,
    exact: ov.InferRequest,
    inputs: Inputs,
    find_error: Callable[[Outputs, Outputs], float] = relative_error,
) -> float | None:
    """Largest relative change of outputs by rounding, and by integers that overflow.

    For rounding, inputs change by up to ``F32_TOLERANCE``, the error of a split in f32 and far less
    than a level of quantisation. ``exact`` computes nothing in integers, so nothing overflows.

    Returns:
        The error; None if no input is a real number.
    """
    if not any(is_real(values) for values in inputs):
        return None
    expected = infer(request, inputs)
    rng = np.random.default_rng(0)
    perturbed = [
        infer(request, [disturb(values, rng) for values in inputs]) for _ in range(N_PERTURBATIONS)
    ]
    return max(find_error(outputs, expected) for outputs in [*perturbed, infer(exact, inputs)])


def infer(request: ov.InferRequest, inputs: Inputs) -> Outputs:
    request.infer(dict(enumerate(inputs)))
    return read_outputs(request)


def is_real(values: Input) -> TypeGuard[NDArray[np.floating[Any]]]:
    """Return whether values are real numbers in a type of numpy."""
    return isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.floating)


def disturb(values: Input, rng: np.random.Generator) -> Input:
    """Change real numbers by up to ``F32_TOLERANCE`` of themselves; others stay as they are."""
    if not is_real(values):
        return values
    factors = 1.0 + F32_TOLERANCE * rng.uniform(-1.0, 1.0, values.shape)
    return (values * factors).astype(values.dtype)
