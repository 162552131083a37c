"""Tolerances: the relative error that outputs of a placement may have.

In f32 a split changes outputs by next to nothing. It changes them by more on devices of lower
precision; in quantised models, where any difference may round an activation to the next level; and
where integers overflow on one device, or in one submodel, and not in another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.measured.outputs import MAX_ROUNDING_ERROR, relative_error
from placement_gym.graph import is_quantized
from placement_gym.hardware import DeviceSpec
from placement_gym.models import Input, read_values
from placement_gym.workloads import Inputs, Outputs

if TYPE_CHECKING:
    import openvino as ov

F32_TOLERANCE = 1e-4
"""Relative error of outputs in f32: ours, far above what sums in another order change."""

LOW_PRECISION_TOLERANCE = 3e-2
"""Relative error of bf16 and f16 devices, and of quantised models whose rounding is not measured:
bf16 keeps about 2.4 digits, and errors add up over the layers."""
N_PERTURBATIONS = 5
"""Random changes of the inputs, each one inference: ours."""

SAFETY_FACTOR = 3.0
"""Tolerance over the largest error of ``N_PERTURBATIONS``: a placement rounds at other operators
than the reference device, so that it can be further off than any of these. Ours."""


def find_tolerance(
    model: ov.Model, devices: Sequence[DeviceSpec], measure: Callable[[], float | None]
) -> float:
    """Largest relative error that a placement may add, where the user states none.

    Args:
        model: The model that is placed.
        devices: The devices of the placement.
        measure: Measures the error of rounding in a quantised model, as ``measure_rounding`` does.
    """
    exact = all(device.precision == "f32" for device in devices)
    minimum = F32_TOLERANCE if exact else LOW_PRECISION_TOLERANCE
    if not is_quantized(model):
        return minimum
    rounding = measure()
    if rounding is None:
        return LOW_PRECISION_TOLERANCE
    return max(minimum, min(SAFETY_FACTOR * rounding, MAX_ROUNDING_ERROR))


def measure_rounding(
    request: ov.InferRequest,
    exact: ov.InferRequest,
    inputs: Inputs,
    find_error: Callable[[Outputs, Outputs], float] = relative_error,
) -> float | None:
    """Largest relative change of a model's outputs by rounding and by integers that overflow.

    Rounding: the inputs change by up to 1e-4, as much as the outputs of a split in f32 may be off,
    and far less than a level of quantisation. Overflow: nothing is computed in integers.

    Returns:
        The error; None where no input is a real number.
    """
    if not any(is_real(values) for values in inputs):
        return None
    expected = infer(request, inputs)
    rng = np.random.default_rng(0)
    perturbed = [
        infer(request, [disturb(values, rng) for values in inputs]) for _ in range(N_PERTURBATIONS)
    ]
    return max(find_error(outputs, expected) for outputs in [*perturbed, infer(exact, inputs)])


def infer(request: ov.InferRequest, inputs: Inputs) -> list[NDArray[Any]]:
    request.infer(dict(enumerate(inputs)))
    return [read_values(tensor) for tensor in request.output_tensors]


def is_real(values: Input) -> TypeGuard[NDArray[np.floating[Any]]]:
    """Return whether values are real numbers in a type that holds small changes."""
    return isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.floating)


def disturb(values: Input, rng: np.random.Generator) -> Input:
    """Change real numbers by up to ``F32_TOLERANCE`` of themselves; others stay as they are."""
    if not is_real(values):
        return values
    factors = 1.0 + F32_TOLERANCE * rng.uniform(-1.0, 1.0, values.shape)
    return (values * factors).astype(values.dtype)
