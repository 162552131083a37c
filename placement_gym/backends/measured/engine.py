"""The processes that measure and inspect a model: what passes between them, and failures."""

from __future__ import annotations

import os
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement_gym.backends import EngineFailureError, Kind, Measurement
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.base import EngineError, UserError, show_waiting
from placement_gym.base.processes import Child, ChildLostError, ChildNotStartedError, RemoteError
from placement_gym.hardware import DeviceSpec
from placement_gym.models import FoundShapes, ModelSpec
from placement_gym.problem import Problem

WORKER = "placement_gym.backends.measured.server"
INSPECTOR = "placement_gym.backends.measured.inspector"
TIMEOUT_S = 120.0
"""Seconds that one step may take: a compilation, an inference."""
OnRounds = Callable[[float, Sequence[Measurement]], object]
"""Called in each round of ``remeasure``, and after it: the number of rounds, a part of one
included, and the measurements by whole ones."""


def pack(value: Any) -> str:
    """Pack any value as a text, for the JSON between two processes of this package."""
    return b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    """The inverse of ``pack``."""
    return pickle.loads(b64decode(text))


def print_to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Reporter:
    """Receiver of a worker's signs of life and messages.

    Attributes:
        on_heartbeat: Called with the name of each step as it begins.
        print_message: Called with a message for the user.
        on_round: See ``OnRounds``.
        on_wait: Called every second of a wait with its reason, and with an empty text afterwards.
    """

    on_heartbeat: Callable[[str], object] = lambda stage: None
    print_message: Callable[[str], object] = print_to_stderr
    on_round: OnRounds = lambda rounds, measured: None
    on_wait: Callable[[str], object] = show_waiting


class EngineProcess:
    """A worker in a process, which starts with the first question, again if it was lost.

    Args:
        spec: The model, which the process reads again.
        problem: Its units and devices.
        alias: Whether devices get alias names.
        tolerance: See ``MeasuredEnv``.
        timeout_s: Seconds that one step may take.
    """

    def __init__(
        self,
        spec: ModelSpec,
        problem: Problem,
        alias: bool,
        tolerance: float | None,
        timeout_s: float,
    ) -> None:
        self.spec, self.setup, self.timeout_s = spec, (problem, alias, tolerance), timeout_s
        self.module = WORKER
        self.on_rounds: OnRounds | None = None
        self.child: Child | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes without the process: a copy starts its own."""
        return self.__dict__ | {"child": None, "on_rounds": None}

    def ask(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        """The value of a property of ``Worker``, or what a method of it returns.

        Raises:
            EngineFailureError: The engine failed, or its process died or hangs.
            UserError: It cannot answer for a reason that the user can remove.
        """
        with engine_failures():
            request = {"question": pack((question, protocol, *arguments))}
            return unpack(self.running().call(request, self.timeout_s))

    def running(self) -> Child:
        """The worker, started if there is none; a fork of this process gets its own."""
        child = self.child
        if child is None or child.owner != os.getpid() or not child.alive:
            self.restart()
            with self.spec.as_file() as model:
                setup, command = pack(self.setup), describe_worker()
                start = {"model": model, "setup": setup, "command": command}
                self.child = Child(self.module, start, on_steps=read_rounds(self.on_rounds))
                self.child.call({"question": pack(())}, self.timeout_s)
        assert self.child is not None
        return self.child

    def restart(self) -> None:
        """Kill the worker; the next question starts it again."""
        if self.child is not None:
            self.child.end()
            self.child = None


def read_rounds(on_rounds: OnRounds | None) -> Callable[[float, str], object] | None:
    """Have a function called with the packed measurements that a worker sends."""
    return None if on_rounds is None else lambda done, found: on_rounds(done, unpack(found))


def describe_command(arguments: Sequence[str]) -> str:
    """A command line as its user typed it, without folders: ``"python -m package plan"``.

    Programs that set their own title may have the whole line as their first argument.
    """
    program, *options = " ".join(arguments).split(" ")
    name = Path(program).name
    if name == "__main__.py":
        name = f"python -m {Path(program).parent.name}"
    if name in ("", "-c"):
        name = "python -c"
    return " ".join([name, *options])


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


def inspect_in_new_process(
    spec: ModelSpec, devices: Sequence[DeviceSpec], timeout_s: float, exclusive: bool = True
) -> Inspection:
    """``inspector.inspect`` in a separate process.

    Raises:
        EngineError: OpenVINO failed, or the process died or hangs.
    """
    with engine_failures(), spec.as_file() as model:
        child = Child(INSPECTOR, {"command": describe_worker()})
        try:
            request = {"model": model, "devices": pack(tuple(devices)), "exclusive": exclusive}
            return unpack(child.call(request, timeout_s))
        finally:
            child.end()
