"""The process of an ``Engine``, which imports little: it is started again after a crash."""

from __future__ import annotations

import pickle
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from placement_gym.base.processes.serving import Json, Parent, serve
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.hardware.machine import register
from placement_gym.models.tensors import is_foreign, read_tensor

if TYPE_CHECKING:
    import openvino as ov

Arrays = list[NDArray[Any]]
"""Values or bits of tensors, as ``read_tensor`` has them."""


def write_arrays(file: Path, arrays: Arrays) -> None:
    """Write arrays to a file that the other process reads."""
    file.write_bytes(pickle.dumps(arrays, protocol=pickle.HIGHEST_PROTOCOL))


def read_arrays(file: Path) -> Arrays:
    """Read the arrays that the other process has written."""
    arrays: Arrays = pickle.loads(file.read_bytes())
    return arrays


def make_input(array: NDArray[Any], port: ov.ConstOutput) -> ov.Tensor:
    """The tensor of an input, in the array's memory."""
    import openvino as ov

    kind = port.get_element_type()
    if not is_foreign(kind):
        return ov.Tensor(array)
    # Elements of less than a byte are packed, in an array without their shape.
    shape = array.shape if kind.bitwidth >= 8 else port.get_shape()
    return ov.Tensor(array, ov.Shape(shape), kind)


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
        for index, array in enumerate(read_arrays(self.file)):
            infer.set_input_tensor(index, make_input(array, infer.model_inputs[index]))
        infer.infer()
        write_arrays(self.file, [read_tensor(tensor) for tensor in infer.output_tensors])
        return load_ms


if __name__ == "__main__":
    serve(Worker)
