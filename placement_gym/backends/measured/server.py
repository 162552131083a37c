"""The process that serves one worker.

It runs as ``python -m placement_gym.backends.measured.server``.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from placement_gym.backends.measured.engine import Recipe, pack, unpack
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.measured.worker import Worker
from placement_gym.base import UserError
from placement_gym.base.processes import Parent, serve
from placement_gym.graph import Units, contract, extract_spec
from placement_gym.hardware import register
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem


def build_worker(recipe: Recipe, spec: ModelSpec, reporter: Reporter) -> Worker:
    """Make the worker of a model.

    Raises:
        UserError: The model has other operators here.
    """
    import openvino as ov

    core = ov.Core()
    register(core, recipe.devices)
    model = spec.load()
    model.set_friendly_name(recipe.name)
    graph = extract_spec(model, spec, recipe.found)
    if graph.fingerprint() != recipe.fingerprint:
        raise UserError(
            f"the process that measures finds other operators in {recipe.name!r} than this one: "
            "its file has changed since the environment was made, or it changes when it is "
            "saved. Make the environment again, or pass isolate=False to measure here"
        )
    labels = np.array([recipe.unit_of[name] for name in graph.names], dtype=np.int64)
    units = Units(spec.granularity, graph, labels, contract(graph, labels))
    problem = Problem(units, recipe.devices, recipe.supported)
    return Worker(core, model, problem, recipe.alias, reporter, recipe.tolerance)


class Server:
    """Answers the requests of an ``EngineProcess``.

    Args:
        start: ``recipe``, ``model`` and ``command``, which others that wait for the lock read.
        parent: Where signs of life and messages go.
    """

    def __init__(self, start: dict[str, Any], parent: Parent) -> None:
        sys.argv[:] = [start["command"]]
        reporter = Reporter(
            parent.heartbeat.touch,
            parent.print_message,
            lambda rounds, measured: parent.count(rounds, pack(measured)),
            parent.show_waiting,
        )
        self.worker = build_worker(unpack(start["recipe"]), ModelSpec(**start["model"]), reporter)

    def __call__(self, request: dict[str, Any]) -> str | None:
        question = unpack(request["question"])
        try:
            # The first one is empty: its answer says that there is a worker.
            return pack(self.answer(*question)) if question else None
        finally:
            return_free_memory()

    def answer(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        return self.worker.ask(question, protocol, *arguments)


def return_free_memory() -> None:
    """Return malloc's free memory to the system: without it a night's run grows by megabytes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


if __name__ == "__main__":
    serve(Server)
