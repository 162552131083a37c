"""Tolerances: how far outputs of a placement may be from those of the reference device.

A split that computes in f32 adds next to nothing. A device of lower precision, and a quantised
model, in which a difference of any size may round an activation to the next level, add more. So do
integers that overflow on one device, or in one submodel, and not in another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.measured.outputs import MOST_BY_ROUNDING, relative_error
from placement_gym.graph.quantization import is_quantized
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.models.tensors import Input, read_values
from placement_gym.workloads.runs import Inputs

if TYPE_CHECKING:
    import openvino as ov

F32_TOLERANCE = 1e-4
LOW_PRECISION_TOLERANCE = 3e-2
"""Of devices in lower precision, and of quantised models whose rounding cannot be measured."""
DRAWS = 5
MARGIN = 3.0
"""Of the largest error found: a placement rounds, and overflows, elsewhere than was tried."""


def find_tolerance(
    model: ov.Model, devices: Sequence[DeviceSpec], measure: Callable[[], float | None]
) -> float:
    """Largest relative error that a placement may add, where the user states none.

    Args:
        model: The model that is placed.
        devices: What it is placed on.
        measure: Finds what rounding costs a quantised model, as ``measure_rounding`` does.
    """
    exact = all(device.precision == "f32" for device in devices)
    least = F32_TOLERANCE if exact else LOW_PRECISION_TOLERANCE
    if not is_quantized(model):
        return least
    rounding = measure()
    if rounding is None:
        return LOW_PRECISION_TOLERANCE
    return max(least, min(MARGIN * rounding, MOST_BY_ROUNDING))


def measure_rounding(
    request: ov.InferRequest, exact: ov.InferRequest, inputs: Inputs
) -> float | None:
    """Largest relative change of a model's outputs by rounding and by integers that overflow.

    Rounding: the inputs change by up to 1e-4, as much as the outputs of a split in f32 may be off,
    and far less than a level of quantisation. Overflow: nothing is computed in integers.

    Args:
        request: Of the whole model, without state, on one device.
        exact: Of the same ``without_integer_kernels``.
        inputs: One array per input.

    Returns:
        The error; None where no input is a real number.
    """
    if not any(is_real(values) for values in inputs):
        return None
    expected = infer(request, inputs)
    rng = np.random.default_rng(0)
    changed = [infer(request, [disturb(values, rng) for values in inputs]) for _ in range(DRAWS)]
    return max(relative_error(one, expected) for one in [*changed, infer(exact, inputs)])


def infer(request: ov.InferRequest, inputs: Inputs) -> list[NDArray[Any]]:
    request.infer(dict(enumerate(inputs)))
    return [read_values(tensor) for tensor in request.output_tensors]


def is_real(values: Input) -> TypeGuard[NDArray[np.floating[Any]]]:
    """Return whether values are real numbers in a type that holds small changes."""
    return isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.floating)


def disturb(values: Input, rng: np.random.Generator) -> Input:
    """Real numbers that are off by up to ``F32_TOLERANCE`` of themselves; others as they are."""
    if not is_real(values):
        return values
    factors = 1.0 + F32_TOLERANCE * rng.uniform(-1.0, 1.0, values.shape)
    return (values * factors).astype(values.dtype)
