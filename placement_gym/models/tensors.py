"""Tensors of all element types, also of those that NumPy lacks.

OpenVINO returns the latter as arrays of bits: bfloat16 as float16, eight bits as uint8, and fewer
packed, without the tensor's shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import openvino as ov

Input: TypeAlias = "NDArray[Any] | ov.Tensor"
"""Array, or tensor of a type that NumPy lacks."""
FOREIGN = ("bf16", "f8e4m3", "f8e5m2", "f8e8m0")
"""Element types of whole bytes that NumPy lacks."""


def is_foreign(element_type: ov.Type) -> bool:
    """Return whether NumPy lacks the type."""
    return element_type.get_type_name() in FOREIGN or element_type.bitwidth < 8


def is_whole(element_type: ov.Type) -> bool:
    return element_type.get_type_name().lstrip("iu").isdigit()


def is_text(element_type: ov.Type) -> bool:
    return bool(element_type.get_type_name() == "string")


def make_tensor(values: NDArray[Any], element_type: ov.Type) -> ov.Tensor:
    """Copy strings, or numbers rounded to the type, to a tensor; raise if it cannot hold them."""
    import openvino as ov
    from openvino import opset13 as ops

    if is_text(element_type):
        # NumPy decodes bytes as ASCII, OpenVINO as UTF-8.
        return ov.Tensor(values if values.dtype.kind == "S" else np.asarray(values, np.str_))
    if not is_foreign(element_type):
        cast = np.asarray(values, element_type.to_dtype(), order="C")
        if is_whole(element_type) and cast.dtype != values.dtype and np.any(cast != values):
            raise ValueError(f"{element_type.get_type_name()} does not hold all values")
        return ov.Tensor(cast)
    wide = np.int64 if is_whole(element_type) else np.float32
    # A Constant converts between all types; copy its view, which does not outlive it.
    constant = ops.constant(np.asarray(values).astype(wide), dtype=element_type)
    return copy_tensor(constant.tensor_view)


def as_input(values: NDArray[Any], element_type: ov.Type) -> Input:
    """Convert values to an input of this type for ``ov.InferRequest.infer``."""
    if is_foreign(element_type):
        return make_tensor(values, element_type)
    kind = np.str_ if is_text(element_type) else element_type.to_dtype()
    return np.asarray(values, kind, order="C")


def copy_tensor(tensor: ov.Tensor) -> ov.Tensor:
    import openvino as ov

    copy = ov.Tensor(tensor.element_type, tensor.shape)
    tensor.copy_to(copy)
    return copy


def read_values(tensor: ov.Tensor) -> NDArray[Any]:
    """Copy a tensor's values, as float32 if NumPy lacks the type."""
    from openvino import op

    if is_foreign(tensor.element_type):
        return np.array(op.Constant(tensor).get_data(dtype=np.float32))
    return np.array(tensor.str_data if is_text(tensor.element_type) else tensor.data)
