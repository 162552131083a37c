"""``python -m placement_gym.backends.measured.worker``: serves one measured backend."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.health import Session
from placement_gym.backends.measured.recipe import Recipe
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.base.processes.serving import Parent, serve
from placement_gym.models.spec import ModelSpec

Json = dict[str, Any]


class Worker:
    """Answers the requests of an ``IsolatedBackend``.

    Args:
        start: ``recipe``, ``model`` and ``command``, which others that wait for the lock read.
        parent: Where signs of life and messages go.
    """

    def __init__(self, start: Json, parent: Parent) -> None:
        sys.argv[:] = [start["command"]]
        reporter = Reporter(
            parent.heartbeat.touch, parent.print_message, parent.count, parent.show_waiting
        )
        recipe = Recipe(**start["recipe"])
        self.backend: MeasuredBackend = recipe.build(
            ModelSpec(**start["model"]), Session(), reporter
        )

    def __call__(self, request: Json) -> Any:
        self.backend.protocol = TimingProtocol(**request["protocol"])
        answer: Callable[..., Any] = getattr(self, request["method"])
        try:
            return answer(*request["arguments"])
        finally:
            return_free_memory()

    def ready(self) -> None:
        """Nothing is left to do when the backend is made."""

    def measure_once(self, assignment: list[int]) -> Json:
        return self.backend.measure_once(np.array(assignment, dtype=np.int64)).to_json()

    def remeasure(self, assignments: list[list[int]]) -> list[Json]:
        placements = [np.array(one, dtype=np.int64) for one in assignments]
        return [measurement.to_json() for measurement in self.backend.remeasure(placements)]

    def reference_ms(self) -> float:
        return self.backend.reference_ms

    def tolerance(self) -> float:
        with self.backend.lock():
            return self.backend.tolerance

    def check_reference(self) -> None:
        with self.backend.lock():
            self.backend.check_reference()

    def measure_operators(self, device: int, prefill: bool = False) -> list[float]:
        values: list[float] = self.backend.measure_operators(device, prefill).tolist()
        return values

    def measure_stages(self, assignments: list[list[int]]) -> list[list[list[float]]]:
        placements = [np.array(one, dtype=np.int64) for one in assignments]
        values: list[list[list[float]]] = self.backend.measure_stages(placements).tolist()
        return values

    def own_choice(self, plugin: str) -> list[int]:
        values: list[int] = self.backend.own_choice(plugin).tolist()
        return values


def return_free_memory() -> None:
    """Return what malloc keeps free to the system, or it grows by megabytes in a night."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


if __name__ == "__main__":
    serve(Worker)
