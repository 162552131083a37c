"""The process of an ``Engine``, which imports little: it is started again after a crash."""

from __future__ import annotations

import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from placement_gym.base.texts import last_line
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.hardware.machine import register
from placement_gym.models.tensors import is_text, read_tensor

if TYPE_CHECKING:
    import openvino as ov

Values = tuple[str, tuple[int, ...], NDArray[Any]]
"""Element type, shape, and values or bits of a tensor."""


def pack(tensor: ov.Tensor) -> Values:
    """A copy of a tensor's values that a pipe can send."""
    return tensor.element_type.get_type_name(), tuple(tensor.shape), read_tensor(tensor)


def unpack(values: Values) -> ov.Tensor:
    """The tensor of packed values, in their memory."""
    import openvino as ov

    name, shape, array = values
    kind = getattr(ov.Type, name)
    return ov.Tensor(array) if is_text(kind) else ov.Tensor(array, ov.Shape(shape), kind)


def serve(pipe: Connection) -> None:
    """Run the stages that an ``Engine`` sends, until its program ends."""
    import openvino as ov

    core, device = ov.Core(), DeviceSpec.from_json(pipe.recv())
    register(core, [device])
    requests: dict[int, ov.InferRequest] = {}
    while True:
        stage, model, released, inputs = pipe.recv()
        began_s = perf_counter()
        try:
            for other in released:
                requests.pop(other, None)
            if stage not in requests:
                compiled = core.compile_model(model, device.name, device.compile_properties())
                requests[stage] = compiled.create_infer_request()
            load_ms = (perf_counter() - began_s) * 1e3
            for index, values in enumerate(inputs):
                requests[stage].set_input_tensor(index, unpack(values))
            requests[stage].infer()
            pipe.send(([pack(tensor) for tensor in requests[stage].output_tensors], load_ms, ""))
        except Exception as error:
            pipe.send(([], 0.0, last_line(error)))


if __name__ == "__main__":
    with suppress(EOFError):
        serve(Connection(int(sys.argv[1])))
