"""The process that inspects a model, as plugins may crash or hang while they read it.

It runs as ``python -m placement_gym.backends.measured.inspector``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from placement_gym.backends.measured.counters import query_primitives
from placement_gym.backends.measured.engine import Inspection, Reporter, pack, unpack
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.base import UserError, last_line
from placement_gym.base.processes import Parent, serve
from placement_gym.graph import WRITER
from placement_gym.hardware import DeviceSpec, register
from placement_gym.models import FoundShapes, ModelSpec, list_dynamic
from placement_gym.workloads import Request, draw, make_request

if TYPE_CHECKING:
    import openvino as ov


def read_and_inspect(
    spec: ModelSpec, devices: Sequence[DeviceSpec], reporter: Reporter | None = None
) -> tuple[ov.Model, Inspection]:
    """Load a model and inspect it in this process; see ``inspect``."""
    model = spec.load()
    request = make_request(model, spec.scenario, spec.inputs)
    return model, inspect(model, devices, spec.fused, reporter, request)


def inspect(
    model: ov.Model,
    devices: Sequence[DeviceSpec],
    fused: bool = False,
    reporter: Reporter | None = None,
    request: Request | None = None,
) -> Inspection:
    """Query the operators, primitives and shapes of a model from OpenVINO.

    With ``fused`` it compiles the model for the CPU to find primitives, and waits for other
    processes that measure unless ``devices`` are empty. If data decide sizes, it runs ``request``.

    Raises:
        UserError: Data decide sizes, and the model does not run.
    """
    import openvino as ov

    reporter = reporter or Reporter()
    core, primitives = ov.Core(), None
    register(core, devices)
    # Devices of one plugin differ in settings, not in what they support.
    known: dict[str, list[str]] = {}
    for device in devices:
        if (name := device.plugin or device.name) not in known:
            reporter.on_heartbeat(f"asking what {device.name} supports")
            known[name] = list(core.query_model(model, device.name))
    operators = [known[device.plugin or device.name] for device in devices]
    if fused:
        with measurement_lock(reporter) if devices else nullcontext():
            reporter.on_heartbeat("compiling for primitives")
            precision = {"INFERENCE_PRECISION_HINT": "f32"}
            primitives = query_primitives(core, model, "CPU", precision)
    found = find_shapes(core, model, request, reporter) if request else []
    return Inspection(operators, primitives, found)


def find_shapes(
    core: ov.Core, model: ov.Model, request: Request, reporter: Reporter
) -> list[FoundShapes]:
    """Run a model once on the CPU to find the shapes that its data decide; see ``inspect``."""
    import openvino as ov
    from openvino import opset13 as ops

    shapes = request.list_shapes(model)
    undecided = list_dynamic((shapes[0].nodes or {}).values())
    if not undecided:
        return []
    # Only shapes are outputs, as tensors could fill the memory; a node without outputs has the
    # shapes that it reads.
    clone = model.clone()
    nodes = {node.get_friendly_name(): node for node in clone.get_ops()}
    ports = {
        name: [port.get_source_output() for port in nodes[name].inputs()]
        if nodes[name].get_type_name() in (WRITER, "Result")
        else nodes[name].outputs()
        for name in undecided
    }
    taps = [ops.result(ops.shape_of(port)) for of_node in ports.values() for port in of_node]
    tapped = ov.Model(taps, clone.get_sinks(), clone.get_parameters(), "shapes")
    found = []
    try:
        compiled = core.compile_model(tapped, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        engine_request = compiled.create_infer_request()
        for inputs in draw(request, model):
            reporter.on_heartbeat("running the model once, as its data decide sizes")
            engine_request.infer(dict(enumerate(inputs)))
            values = iter([tensor.data.tolist() for tensor in engine_request.output_tensors])
            found.append({name: [next(values) for _ in of_node] for name, of_node in ports.items()})
    except RuntimeError as error:
        raise UserError(
            f"the data decide the size of {undecided[0]!r}, and on the sample inputs the model "
            f"does not run on the CPU: {last_line(error)}"
        ) from error
    return [found[shaped.inference] for shaped in shapes]


class Inspector:
    def __init__(self, start: dict[str, Any], parent: Parent) -> None:
        sys.argv[:] = [start["command"]]
        self.reporter = Reporter(
            parent.heartbeat.touch, parent.print_message, on_wait=parent.show_waiting
        )

    def __call__(self, request: dict[str, Any]) -> str:
        self.reporter.on_heartbeat("reading the model")
        spec, devices = ModelSpec(**request["model"]), unpack(request["devices"])
        return pack(read_and_inspect(spec, devices, self.reporter)[1])


if __name__ == "__main__":
    serve(Inspector)
