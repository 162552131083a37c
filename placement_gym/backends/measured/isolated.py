"""A measured backend in a process of its own, whose crashes and hangs do not end the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from placement_gym.backends import EngineFailureError, Kind, Measurement, check_values
from placement_gym.backends.measured.aliases import uses_aliases
from placement_gym.backends.measured.inspection import Inspection
from placement_gym.backends.measured.lock import describe_command
from placement_gym.backends.measured.measuring import MeasuringBackend, OnRounds
from placement_gym.backends.measured.recipe import Recipe
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.base import EngineError, FloatArray, IntArray, UserError
from placement_gym.base.processes import Child, ChildLostError, ChildNotStartedError, RemoteError
from placement_gym.hardware import DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem

if TYPE_CHECKING:
    from placement_gym.problem.costs import CostTable

WORKER = "placement_gym.backends.measured.engine_process"
INSPECTOR = "placement_gym.backends.measured.inspector"
TIMEOUT_S = 120.0
"""Seconds that one step may take: a compilation, an inference."""
READY = {"method": "ready", "protocol": {}, "arguments": []}


class EngineProcess:
    """The worker process of a backend; it starts with the first request, again if it was lost."""

    def __init__(
        self, spec: ModelSpec, recipe: Recipe, timeout_s: float, module: str = WORKER
    ) -> None:
        self.spec, self.recipe, self.timeout_s, self.module = spec, recipe, timeout_s, module
        self.on_rounds: Callable[[float, Any], object] | None = None
        self.child: Child | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes without the process: a copy starts its own."""
        return self.__dict__ | {"child": None, "on_rounds": None}

    def fresh(self) -> EngineProcess:
        """Another worker for the same problem."""
        return EngineProcess(self.spec, self.recipe, self.timeout_s, self.module)

    def ask(self, method: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        """Call a method of the worker's backend.

        Raises:
            EngineFailureError: The engine failed, or the worker died or hangs.
            UserError: The request cannot be served for a reason that the user can remove.
        """
        request = {"method": method, "protocol": asdict(protocol), "arguments": arguments}
        with engine_failures():
            return self.running().call(request, self.timeout_s)

    def running(self) -> Child:
        """The worker, started if there is none; a fork of this process gets one of its own."""
        if self.child is not None and self.child.owner != os.getpid():
            self.child.end()
            self.child = None
        if self.child is None or not self.child.alive:
            self.end()
            with self.spec.as_file() as model:
                start = {
                    "recipe": self.recipe.to_json(),
                    "model": model,
                    "command": describe_worker(),
                }
                self.child = Child(self.module, start, on_steps=self.on_rounds)
                self.child.call(READY, self.timeout_s)
        return self.child

    def end(self) -> None:
        """Kill the worker."""
        if self.child is not None:
            self.child.end()
            self.child = None


def describe_worker() -> str:
    """Describe a worker of this process, for others that wait for the lock."""
    return f"worker of process {os.getpid()}: {describe_command(sys.argv)}"


@contextmanager
def engine_failures() -> Iterator[None]:
    """Translate errors of a worker into failures of the engine and errors of the user."""
    try:
        yield
    except ChildNotStartedError as error:
        raise EngineFailureError(Kind.TRANSIENT, f"the engine's process: {error}") from error
    except ChildLostError as error:
        raise EngineFailureError(Kind.DEAD, f"the engine's process: {error}") from error
    except RemoteError as error:
        raise translate(error) from error


def inspect_in_new_process(
    spec: ModelSpec, devices: Sequence[DeviceSpec], timeout_s: float, exclusive: bool = True
) -> Inspection:
    """``inspection.inspect`` in a process of its own.

    Raises:
        EngineError: OpenVINO failed, or the process died or hangs.
    """
    specs = [device.to_json() for device in devices]
    with engine_failures(), spec.as_file() as model:
        child = Child(INSPECTOR, {"command": describe_worker()})
        try:
            request = {"model": model, "devices": specs, "alone": exclusive}
            return Inspection(**child.call(request, timeout_s))
        finally:
            child.end()


def translate(error: RemoteError) -> EngineError | UserError:
    """The exception that a failed request raises here."""
    values = error.values
    if "kind" in values:
        return EngineFailureError(Kind(values["kind"]), values["message"])
    if UserError.__name__ in values["types"]:
        return UserError(values["message"])
    if EngineError.__name__ in values["types"]:
        return EngineError(values["message"])
    return EngineError(f"the engine's process failed: {values['types'][0]}: {values['message']}")


class IsolatedBackend(MeasuringBackend):
    """As ``MeasuredBackend``, in a process that starts with the first measurement.

    A placement with which the process dies or hangs is tried once more in a new process, and is
    infeasible for the rest of the session if that fails too. Finalists are measured in a new
    process each time.
    """

    def __init__(
        self, engine: EngineProcess, problem: Problem, protocol: TimingProtocol | None = None
    ) -> None:
        alias = uses_aliases(engine.recipe.split, problem.devices)
        super().__init__(problem, alias, protocol or TimingProtocol())
        self.engine = engine
        self.owns_engine = True
        self._reference_ms: float | None = None

    def ask(self, method: str, *arguments: Any) -> Any:
        return self.engine.ask(method, self.protocol, *arguments)

    def retry_request(self, method: str, *arguments: Any) -> Any:
        """Send a request, and repeat it as ``failures.POLICIES`` allows.

        Raises:
            EngineError: The engine cannot do it.
        """
        try:
            return self.retry(lambda: self.ask(method, *arguments))
        except EngineFailureError as error:
            raise EngineError(f"{method.replace('_', ' ')} failed: {error}") from error

    def measure_once(self, assignment: IntArray, rival: float = 0.0) -> Measurement:
        values = self.ask("measure_once", assignment.tolist(), rival)
        return check_values(Measurement.from_json(values))

    @property
    def reference_ms(self) -> float:
        if self._reference_ms is None:
            self._reference_ms = float(self.retry_request("reference_ms"))
        return self._reference_ms

    @cached_property
    def tolerance(self) -> float:
        return float(self.retry_request("tolerance"))

    @cached_property
    def steady(self) -> list[bool]:
        return list(self.retry_request("steady"))

    @cached_property
    def comparison_rules(self) -> list[str]:
        return list(self.retry_request("comparison_rules"))

    def check_reference(self) -> None:
        self.retry_request("check_reference")

    def output_error(self, assignment: IntArray) -> float:
        return float(self.ask("output_error", assignment.tolist()))

    def operator_errors(self, device: int, selected: IntArray) -> FloatArray:
        errors = self.ask("operator_errors", device, selected.tolist())
        return np.array(errors, dtype=np.float64)

    def measure_operators(self, device: int, prefill: bool = False) -> FloatArray:
        return np.array(self.retry_request("measure_operators", device, prefill), dtype=np.float64)

    def own_choice(self, plugin: str) -> IntArray:
        return np.array(self.retry_request("own_choice", plugin), dtype=np.int64)

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """See ``Backend.remeasure``; in a process that has measured nothing before.

        Raises:
            EngineError: One of them does not run; finalists are placements that did.
        """
        return remeasure_in_new_process(
            self.engine, self.problem, assignments, self.protocol, self.on_rounds
        )

    def with_protocol(self, protocol: TimingProtocol) -> Self:
        """See ``MeasuringBackend.with_protocol``; the process is that of this one."""
        backend = super().with_protocol(protocol)
        backend.owns_engine, backend._reference_ms = False, None
        return backend

    def restart(self) -> None:
        """End the process; the next request starts another."""
        self.engine.end()

    def cost_table(self) -> CostTable:
        from placement_gym.backends.measured.kept_profiles import load_or_measure

        return load_or_measure(self, quick=True)

    def close(self) -> None:
        """End the process, unless it is that of another backend."""
        if self.owns_engine:
            self.engine.end()


def remeasure_in_new_process(
    engine: EngineProcess,
    problem: Problem,
    assignments: Sequence[IntArray],
    protocol: TimingProtocol,
    on_rounds: OnRounds | None = None,
) -> list[Measurement]:
    """``MeasuredBackend.remeasure`` in a process that has measured nothing before.

    Raises:
        EngineError: They could not be measured.
    """
    new_engine = engine.fresh()
    if on_rounds is not None:
        new_engine.on_rounds = lambda done, values: on_rounds(done, read_measurements(values))
    with closing(IsolatedBackend(new_engine, problem, protocol)) as backend:
        values = backend.retry_request(
            "remeasure", [assignment.tolist() for assignment in assignments]
        )
    return read_measurements(values)


def read_measurements(values: Sequence[Mapping[str, Any]]) -> list[Measurement]:
    """Measurements as another process sends them."""
    return [check_values(Measurement.from_json(value)) for value in values]
