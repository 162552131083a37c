"""The process that serves one worker.

It runs as ``python -m placement_gym.backends.measured.server``.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from placement_gym.backends.measured.engine import encode
from placement_gym.backends.measured.recipe import Json, Recipe
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.measured.worker import Worker
from placement_gym.base.processes import Parent, serve
from placement_gym.graph import Units, contract, extract_spec
from placement_gym.hardware import DeviceSpec, register
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem


def build_worker(recipe: Recipe, spec: ModelSpec, reporter: Reporter) -> Worker:
    """Make the worker of a model.

    Raises:
        UserError: The model has other operators here.
    """
    import openvino as ov

    core = ov.Core()
    devices = tuple(DeviceSpec.from_json(values) for values in recipe.devices)
    register(core, devices)
    model = spec.load()
    model.set_friendly_name(recipe.name)
    graph = extract_spec(model, spec, recipe.found)
    recipe.check(graph)
    labels = np.array([recipe.unit_of[name] for name in graph.names], dtype=np.int64)
    units = Units(spec.granularity, graph, labels, contract(graph, labels))
    problem = Problem(units, devices, np.array(recipe.supported, dtype=np.bool_))
    return Worker(core, model, problem, recipe.split, reporter, recipe.tolerance)


class Server:
    """Answers the requests of an ``EngineProcess``.

    Args:
        start: ``recipe``, ``model`` and ``command``, which others that wait for the lock read.
        parent: Where signs of life and messages go.
    """

    def __init__(self, start: Json, parent: Parent) -> None:
        sys.argv[:] = [start["command"]]
        reporter = Reporter(
            parent.heartbeat.touch,
            parent.print_message,
            lambda rounds, measured: parent.count(rounds, encode(measured)),
            parent.show_waiting,
        )
        recipe = Recipe(**start["recipe"])
        self.worker = build_worker(recipe, ModelSpec(**start["model"]), reporter)

    def __call__(self, request: Json) -> Any:
        protocol = TimingProtocol(**request["protocol"])
        try:
            arguments = map(decode, request["arguments"])
            return encode(self.answer(request["method"], protocol, *arguments))
        finally:
            return_free_memory()

    def answer(self, method: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        """Ask the worker; ``"ready"`` only waits until there is one."""
        return None if method == "ready" else self.worker.answer(method, protocol, *arguments)


def decode(argument: Any) -> Any:
    """An argument from JSON: placements are arrays."""
    if not isinstance(argument, list):
        return argument
    if isinstance(argument[0], list):
        return [np.array(placement, dtype=np.int64) for placement in argument]
    return np.array(argument, dtype=np.int64)


def return_free_memory() -> None:
    """Return malloc's free memory to the system: without it a night's run grows by megabytes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


if __name__ == "__main__":
    serve(Server)
