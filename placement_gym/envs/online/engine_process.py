"""The process of an ``Engine``, which imports little: it is started again after a crash."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from placement_gym.base.processes.serving import Json, Parent, serve
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.hardware.machine import register
from placement_gym.models.tensors import is_text, read_tensor

if TYPE_CHECKING:
    import openvino as ov

Values = tuple[str, tuple[int, ...], NDArray[Any]]
"""Element type, shape, and values or bits of a tensor."""


def pack(tensor: ov.Tensor) -> Values:
    """A copy of a tensor's values, which a file can hold."""
    return tensor.element_type.get_type_name(), tuple(tensor.shape), read_tensor(tensor)


def unpack(values: Values) -> ov.Tensor:
    """The tensor of packed values, in their memory."""
    import openvino as ov

    name, shape, array = values
    kind = getattr(ov.Type, name)
    return ov.Tensor(array) if is_text(kind) else ov.Tensor(array, ov.Shape(shape), kind)


def write_values(file: Path, values: Sequence[Values]) -> None:
    """Write tensors to a file that the other process reads."""
    file.write_bytes(pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL))


def read_values(file: Path) -> list[Values]:
    """Read the tensors that the other process has written."""
    values: list[Values] = pickle.loads(file.read_bytes())
    return values


class Worker:
    """Runs the stages that an ``Engine`` sends.

    Args:
        start: ``device``, and the ``file`` of inputs and outputs.
        parent: Not used.
    """

    def __init__(self, start: Json, parent: Parent) -> None:
        import openvino as ov

        self.core, self.device = ov.Core(), DeviceSpec.from_json(start["device"])
        register(self.core, [self.device])
        self.file = Path(start["file"])
        self.requests: dict[int, ov.InferRequest] = {}

    def __call__(self, request: Json) -> float:
        """Run a stage, and load it first if need be; returns milliseconds of loading."""
        began_s, stage, model = perf_counter(), request["stage"], request["model"]
        for other in self.requests.keys() - request["held"]:
            del self.requests[other]
        if stage not in self.requests:
            properties = self.device.compile_properties()
            compiled = self.core.compile_model(model, self.device.name, properties)
            self.requests[stage] = compiled.create_infer_request()
        load_ms = (perf_counter() - began_s) * 1e3
        infer = self.requests[stage]
        for index, values in enumerate(read_values(self.file)):
            infer.set_input_tensor(index, unpack(values))
        infer.infer()
        write_values(self.file, [pack(tensor) for tensor in infer.output_tensors])
        return load_ms


if __name__ == "__main__":
    serve(Worker)
