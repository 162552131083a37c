"""The inputs of a request, in any form that OpenVINO takes, as tensors of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.base.errors import UserError, unknown_name

if TYPE_CHECKING:
    import openvino as ov


class InputReader:
    """Copies the inputs of a request, and checks them before they reach a stage.

    Args:
        model: The model.
        prefix: Only inputs of names that begin with it, which is left out: those of one model in
            a union.
    """

    def __init__(self, model: ov.Model, prefix: str = "") -> None:
        ports = [p for p in model.inputs if p.get_node().get_friendly_name().startswith(prefix)]
        self.names = [sorted(n.removeprefix(prefix) for n in port.get_names()) for port in ports]
        self.types = [port.get_element_type().to_dtype() for port in ports]
        self.shapes = [port.get_partial_shape() for port in ports]
        self.index = {name: i for i, names in enumerate(self.names) for name in names}

    def read(self, inputs: Any) -> list[ov.Tensor]:
        """(n_inputs,) tensors of a mapping by name or index, a sequence, or a single array.

        Raises:
            UserError: An input is missing, unknown, or of another type or shape.
        """
        values = self.sort(inputs)
        absent = [self.describe(i) for i in range(len(self.types)) if i not in values]
        if absent or len(values) > len(self.types):
            raise UserError(
                f"a request has {len(self.types)} inputs, {len(values)} were given"
                + (f": {', '.join(absent)} is missing" if absent else "")
            )
        return [self.convert(i, values[i]) for i in range(len(self.types))]

    def sort(self, inputs: Any) -> dict[int, Any]:
        """The values by index of the input."""
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
        """A tensor with a copy of a value."""
        import openvino as ov

        given = np.asarray(value.data if isinstance(value, ov.Tensor) else value)
        if not np.can_cast(given.dtype, self.types[index], "same_kind"):
            raise UserError(
                f"{self.describe(index)} is {self.types[index]}, and {given.dtype} was given"
            )
        if not self.shapes[index].compatible(ov.PartialShape(list(given.shape))):
            raise UserError(
                f"{self.describe(index)} has shape {self.shapes[index]}, and {given.shape} was "
                "given"
            )
        return ov.Tensor(np.asarray(given, self.types[index], order="C"))

    def describe(self, index: int) -> str:
        return repr(self.names[index][0]) if self.names[index] else f"input {index}"
