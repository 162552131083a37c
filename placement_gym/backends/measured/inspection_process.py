"""Inspection of a model by OpenVINO before it is placed.

``python -m placement_gym.backends.measured.inspection_process`` inspects in a process of its own:
plugins may crash while they read a model, or hang.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from placement_gym.backends.measured.counters import query_primitives
from placement_gym.backends.measured.inspection import Inspection
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.base.processes.serving import Parent, serve
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.hardware.machine import register
from placement_gym.models.spec import ModelSpec

if TYPE_CHECKING:
    import openvino as ov

Json = dict[str, Any]


def inspect(
    model: ov.Model,
    devices: Sequence[DeviceSpec],
    fused: bool = False,
    reporter: Reporter | None = None,
    exclusive: bool = True,
) -> Inspection:
    """Query the operators and primitives of a model from OpenVINO.

    Args:
        model: As ``models.load`` returns it.
        devices: Devices that this machine has.
        fused: Whether to list the primitives, which compiles the model for the CPU.
        reporter: Receives every step.
        exclusive: Whether to compile only while no other process measures.
    """
    import openvino as ov

    reporter = reporter or Reporter()
    core, operators, primitives = ov.Core(), [], None
    register(core, devices)
    for device in devices:
        reporter.beat(f"asking what {device.name} supports")
        operators.append(list(core.query_model(model, device.name)))
    if fused:
        with measurement_lock(reporter) if exclusive else nullcontext():
            reporter.beat("compiling for primitives")
            precision = {"INFERENCE_PRECISION_HINT": "f32"}
            primitives = query_primitives(core, model, "CPU", precision)
    return Inspection(operators, primitives)


class Inspector:
    """Answers the one request of ``isolated.inspect_in_new_process``."""

    def __init__(self, start: Json, parent: Parent) -> None:
        sys.argv[:] = [start["command"]]
        self.reporter = Reporter(
            parent.heartbeat.touch, parent.print_message, wait=parent.show_waiting
        )

    def __call__(self, request: Json) -> Json:
        self.reporter.beat("reading the model")
        spec = ModelSpec(**request["model"])
        devices = [DeviceSpec.from_json(values) for values in request["devices"]]
        inspection = inspect(spec.load(), devices, spec.fused, self.reporter, request["alone"])
        return asdict(inspection)


if __name__ == "__main__":
    serve(Inspector)
