"""Sample inputs for a measurement, and the comparison of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.devices import DeviceSpec

if TYPE_CHECKING:
    import openvino as ov

F32_TOLERANCE = 1e-4
LOW_PRECISION_TOLERANCE = 3e-2


def tolerance(devices: Sequence[DeviceSpec]) -> float:
    """Largest relative error that a split may add: tight where every device computes in f32."""
    exact = all(device.precision == "f32" for device in devices)
    return F32_TOLERANCE if exact else LOW_PRECISION_TOLERANCE


def sample_inputs(model: ov.Model) -> list[NDArray[Any]]:
    """One array per input, the same each time: floats in [0, 1), integers 0 or 1, masks all ones.

    Small integers are valid indices for every embedding; a random mask could hide every token.
    """
    rng = np.random.default_rng(0)
    return [sample_input(port, rng) for port in model.inputs]


def sample_input(port: ov.Output, rng: np.random.Generator) -> NDArray[Any]:
    shape, dtype = tuple(port.get_shape()), port.get_element_type().to_dtype()
    if "mask" in port.get_node().get_friendly_name():
        return np.ones(shape, dtype)
    if np.issubdtype(dtype, np.floating):
        return rng.random(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def compare_outputs(
    outputs: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]], limit: float
) -> str:
    """How outputs differ from those of the reference device, or an empty string.

    Args:
        outputs: Of a placement.
        expected: Of the reference device.
        limit: Largest relative error.
    """
    shapes, wanted = ([array.shape for array in arrays] for arrays in (outputs, expected))
    if shapes != wanted:
        return f"outputs have shapes {shapes}, on the reference device {wanted}"
    if not all_finite(outputs):
        return "outputs differ from the reference: they are NaN or infinite"
    error = relative_error(outputs, expected)
    if error <= limit:
        return ""
    return f"outputs differ from the reference by {error:.1e} relative, more than {limit:.0e}"


def relative_error(outputs: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> float:
    """Largest difference relative to the largest value, over all outputs; inf if not finite."""
    if not all_finite(outputs):
        return float("inf")
    worst = 0.0
    for output, reference in zip(outputs, expected, strict=True):
        difference = np.abs(output.astype(np.float64) - reference.astype(np.float64))
        scale = np.abs(reference.astype(np.float64)).max(initial=0.0) or 1.0
        worst = max(worst, float(difference.max(initial=0.0) / scale))
    return worst


def all_finite(outputs: Sequence[NDArray[Any]]) -> bool:
    return all(bool(np.isfinite(output.astype(np.float64)).all()) for output in outputs)
