"""Reading of a request's inputs in any form that OpenVINO accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import MAX_LISTED_NAMES, UserError, join_words, unknown_name
from placement_gym.models.shapes import index_names, input_names
from placement_gym.models.tensors import (
    copy_tensor,
    is_foreign,
    is_text,
    is_whole,
    make_tensor,
    read_values,
)

if TYPE_CHECKING:
    import openvino as ov


class InputReader:
    """Checks the inputs of a request and copies them to tensors.

    Args:
        model: The model.
        prefix: Prefix of the inputs to read, as of a model in a union; requests omit it.
    """

    def __init__(self, model: ov.Model, prefix: str = "") -> None:
        ports = [p for p in model.inputs if p.get_node().get_friendly_name().startswith(prefix)]
        self.names = [[name.removeprefix(prefix) for name in input_names(port)] for port in ports]
        self.types = [port.get_element_type() for port in ports]
        self.shapes = [port.get_partial_shape() for port in ports]
        self.index = index_names(self.names)

    def read(self, inputs: Any) -> list[ov.Tensor]:
        """Read a mapping by name or index, a sequence or an array, or raise ``UserError``."""
        values = self.sort(inputs)
        missing = [self.describe(i) for i in range(len(self.types)) if i not in values]
        if missing or len(values) > len(self.types):
            raise UserError(
                f"a request has {len(self.types)} inputs, not {len(values)}"
                + (f": {', '.join(missing)} is missing" if missing else "")
            )
        return [self.convert(i, values[i]) for i in range(len(self.types))]

    def sort(self, inputs: Any) -> dict[int, Any]:
        if isinstance(inputs, Mapping):
            return {self.find(key): value for key, value in inputs.items()}
        if isinstance(inputs, Sequence) and not isinstance(inputs, str):
            return dict(enumerate(inputs))
        return {0: inputs}

    def find(self, key: Any) -> int:
        if isinstance(key, int | np.integer) and 0 <= key < len(self.types):
            return int(key)
        name = key.get_any_name() if hasattr(key, "get_any_name") else key
        if name not in self.index:
            raise unknown_name("an input", name, self.index)
        return self.index[name]

    def convert(self, index: int, value: Any) -> ov.Tensor:
        """Copy a value of the input's type, or numbers of its kind, into a tensor."""
        import openvino as ov

        element_type = self.types[index]
        if isinstance(value, ov.Tensor) and value.element_type == element_type:
            self.check_shape(index, tuple(value.shape))
            return copy_tensor(value)
        array = read_values(value) if isinstance(value, ov.Tensor) else np.asarray(value)
        self.check_shape(index, array.shape)
        has_whole_bytes = is_foreign(element_type) and element_type.bitwidth >= 8
        if has_whole_bytes and array.dtype == element_type.to_dtype():  # it holds the bits
            return copy_tensor(ov.Tensor(np.asarray(array, order="C"), array.shape, element_type))
        if not is_of_kind(array, element_type):
            raise UserError(
                f"{self.describe(index)} is {element_type.get_type_name()}: pass this type, "
                f"not {array.dtype}"
            )
        try:
            with np.errstate(over="raise"):
                return make_tensor(array, element_type)
        except (RuntimeError, ValueError, FloatingPointError) as error:
            raise UserError(
                f"{self.describe(index)} is {element_type.get_type_name()}, which cannot hold all "
                f"numbers from {array.min()} to {array.max()}"
            ) from error

    def check_shape(self, index: int, shape: tuple[int, ...]) -> None:
        import openvino as ov

        if not self.shapes[index].compatible(ov.PartialShape(list(shape))):
            raise UserError(f"{self.describe(index)} has shape {self.shapes[index]}, not {shape}")

    def describe(self, index: int) -> str:
        return repr(self.names[index][0])

    def explain(self) -> str:
        """Describe the first inputs of the model."""
        inputs = [
            f"{self.describe(index)} of {kind.get_type_name()} {shape}"
            for index, (kind, shape) in enumerate(zip(self.types, self.shapes, strict=True))
        ]
        more = [f"{len(inputs) - MAX_LISTED_NAMES} more"] * (len(inputs) > MAX_LISTED_NAMES)
        return f"The model takes {join_words(inputs[:MAX_LISTED_NAMES] + more)}"


def is_of_kind(values: NDArray[Any], element_type: ov.Type) -> bool:
    """Return whether values are strings, booleans or numbers as the type requires."""
    if is_text(element_type):
        return values.dtype.kind in "USO"
    if element_type.get_type_name() == "boolean":
        return bool(values.dtype == np.bool_)
    wide = np.int64 if is_whole(element_type) else np.float32
    return bool(np.can_cast(values.dtype, wide, "same_kind"))
