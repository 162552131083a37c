"""The process that serves one worker.

It runs as ``python -m placement_gym.backends.measured.server``.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from placement_gym.backends.measured.engine import Reporter, pack, unpack
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.measured.worker import Worker
from placement_gym.base import UserError
from placement_gym.base.processes import Parent, serve
from placement_gym.graph import extract_spec
from placement_gym.hardware import register
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem


def build_worker(
    spec: ModelSpec, problem: Problem, alias: bool, tolerance: float | None, reporter: Reporter
) -> Worker:
    """Read a model again and make its worker; operators must be those of the asking process."""
    import openvino as ov

    core, graph = ov.Core(), problem.units.graph
    register(core, problem.devices)
    model = spec.load()
    model.set_friendly_name(graph.model)
    if extract_spec(model, spec, graph.found).fingerprint() != graph.fingerprint():
        raise UserError(
            f"the process that measures finds other operators in {graph.model!r} than this one: "
            "its file has changed since the environment was made, or it changes when it is "
            "saved. Make the environment again, or pass isolate=False to measure here"
        )
    return Worker(core, model, problem, alias, reporter, tolerance)


class Server:
    """Answers the requests of an ``EngineProcess``."""

    def __init__(self, start: dict[str, Any], parent: Parent) -> None:
        sys.argv[:] = [start["command"]]  # for processes that wait for the lock
        reporter = Reporter(
            parent.heartbeat.touch,
            parent.print_message,
            lambda rounds, measured: parent.count(rounds, pack(measured)),
            parent.show_waiting,
        )
        problem, alias, tolerance = unpack(start["setup"])
        spec = ModelSpec(**start["model"])
        self.worker = build_worker(spec, problem, alias, tolerance, reporter)

    def __call__(self, request: dict[str, Any]) -> str | None:
        question = unpack(request["question"])
        try:
            # The first question is empty: its answer says that the worker is ready.
            return pack(self.answer(*question)) if question else None
        finally:
            return_free_memory()

    def answer(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        return self.worker.ask(question, protocol, *arguments)


def return_free_memory() -> None:
    """Return malloc's free memory to the system: a long run would grow by megabytes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


if __name__ == "__main__":
    serve(Server)
