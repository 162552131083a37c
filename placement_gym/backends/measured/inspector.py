"""The process that inspects a model: plugins may crash while they read it, or hang.

``python -m placement_gym.backends.measured.inspector`` is it.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from placement_gym.backends.measured.inspecting import inspect
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.base.processes import Parent, serve
from placement_gym.hardware import DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.workloads import make_request

Json = dict[str, Any]


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
        model = spec.load()
        engine_request = make_request(model, spec.scenario, spec.inputs)
        inspection = inspect(
            model, devices, spec.fused, self.reporter, request["alone"], engine_request
        )
        return asdict(inspection)


if __name__ == "__main__":
    serve(Inspector)
