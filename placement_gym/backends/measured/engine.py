"""Engines: a worker in this process, or in one that may crash; and the inspection of a model."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from placement_gym.backends import EngineFailureError, Kind, Measurement, check_values
from placement_gym.backends.measured.lock import describe_command
from placement_gym.backends.measured.recipe import Recipe
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.base import EngineError, UserError
from placement_gym.base.processes import Child, ChildLostError, ChildNotStartedError, RemoteError
from placement_gym.hardware import DeviceSpec
from placement_gym.models import FoundShapes, ModelSpec

if TYPE_CHECKING:
    from placement_gym.backends.measured.worker import Worker


@dataclass(frozen=True)
class Inspection:
    """Operators and primitives of a model, as OpenVINO reports them.

    Attributes:
        operators: For each device, the names of the operators that it supports.
        primitives: Operator to the primitive that the CPU executes; None if not requested.
        found: Of each shape of the request the shapes that the data decide; empty without such.
    """

    operators: list[list[str]]
    primitives: dict[str, str] | None
    found: Sequence[FoundShapes] = field(default_factory=list)


WORKER = "placement_gym.backends.measured.server"
INSPECTOR = "placement_gym.backends.measured.inspector"
TIMEOUT_S = 120.0
"""Seconds that one step may take: a compilation, an inference."""
READY = {"method": "ready", "protocol": {}, "arguments": []}
OnRounds = Callable[[float, Sequence[Measurement]], object]
"""Called in each round of ``remeasure``, and after it: the number of rounds, a part of one
included, and the measurements by whole ones."""


class Engine(ABC):
    """OpenVINO with a model, here or in a process."""

    @abstractmethod
    def ask(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        """The value of a property of ``Worker``, or what a method of it returns.

        Raises:
            EngineFailureError: The engine failed, or its process died or hangs.
            UserError: It cannot answer for a reason that the user can remove.
        """

    @abstractmethod
    def restart(self) -> None:
        """Drop what it holds; the next question starts it again."""

    @abstractmethod
    def start_fresh(self, on_rounds: OnRounds | None) -> AbstractContextManager[Engine]:
        """An engine that has measured nothing before, which ends with the context."""


class EngineProcess(Engine):
    """A worker in a process, which starts with the first question, again if it was lost."""

    def __init__(self, spec: ModelSpec, recipe: Recipe, timeout_s: float) -> None:
        self.spec, self.recipe, self.timeout_s = spec, recipe, timeout_s
        self.module = WORKER
        self.on_rounds: Callable[[float, Any], object] | None = None
        self.child: Child | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes without the process: a copy starts its own."""
        return self.__dict__ | {"child": None, "on_rounds": None}

    def ask(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        encoded = [*map(encode, arguments)]
        request = {"method": question, "protocol": asdict(protocol), "arguments": encoded}
        with engine_failures():
            return read_answer(self.running().call(request, self.timeout_s))

    def running(self) -> Child:
        """The worker, started if there is none; a fork of this process gets its own."""
        if self.child is not None and self.child.owner != os.getpid():
            self.child.end()
            self.child = None
        if self.child is None or not self.child.alive:
            self.restart()
            with self.spec.as_file() as model:
                recipe, command = self.recipe.to_json(), describe_worker()
                start = {"recipe": recipe, "model": model, "command": command}
                self.child = Child(self.module, start, on_steps=self.on_rounds)
                self.child.call(READY, self.timeout_s)
        return self.child

    def restart(self) -> None:
        """Kill the worker."""
        if self.child is not None:
            self.child.end()
            self.child = None

    @contextmanager
    def start_fresh(self, on_rounds: OnRounds | None) -> Iterator[EngineProcess]:
        engine = EngineProcess(self.spec, self.recipe, self.timeout_s)
        engine.module = self.module
        if on_rounds is not None:
            engine.on_rounds = lambda done, values: on_rounds(done, read_answer(values))
        try:
            yield engine
        finally:
            engine.restart()


class LocalEngine(Engine):
    """A worker in this process: for debugging, and for extensions that it has loaded.

    Finalists are still measured in a new process: this one's caches, threads and memory differ from
    those of a program that serves the placement.

    Args:
        worker: The worker.
        finals_engine: Measures finalists; None measures them here.
    """

    def __init__(self, worker: Worker, finals_engine: EngineProcess | None = None) -> None:
        self.worker, self.finals_engine = worker, finals_engine

    def __getstate__(self) -> Any:
        """Refuse to pickle: OpenVINO runs in this process.

        Raises:
            UserError: Always.
        """
        raise UserError(
            "an environment made with isolate=False measures in this process and cannot be "
            "pickled: make it with isolate=True, or in the other process"
        )

    def ask(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        return self.worker.answer(question, protocol, *arguments)

    def restart(self) -> None:
        """Drop the compiled reference; the process stays."""
        self.worker.close()

    @contextmanager
    def start_fresh(self, on_rounds: OnRounds | None) -> Iterator[Engine]:
        if self.finals_engine is None:
            yield self
            return
        with self.finals_engine.start_fresh(on_rounds) as engine:
            yield engine


def encode(value: Any) -> Any:
    """A value as JSON holds it: measurements are their fields, arrays lists."""
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, Measurement):
        return value.to_json()
    return value.tolist() if isinstance(value, np.ndarray) else value


def read_answer(value: Any) -> Any:
    """An answer from JSON: mappings are measurements."""
    if isinstance(value, list):
        return [read_answer(item) if isinstance(item, Mapping) else item for item in value]
    return check_values(Measurement.from_json(value)) if isinstance(value, Mapping) else value


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
    """``inspector.inspect`` in a separate process.

    Raises:
        EngineError: OpenVINO failed, or the process died or hangs.
    """
    specs = [device.to_json() for device in devices]
    with engine_failures(), spec.as_file() as model:
        child = Child(INSPECTOR, {"command": describe_worker()})
        try:
            request = {"model": model, "devices": specs, "exclusive": exclusive}
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
