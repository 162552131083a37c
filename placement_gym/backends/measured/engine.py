"""Processes that measure and inspect a model, their messages and failures."""

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
"""Seconds that one step may take, as a compilation or an inference."""
OnRounds = Callable[[float, Sequence[Measurement]], object]
"""Called during each round of ``remeasure`` with the number of rounds, which includes the part that
is done, and the measurements by whole rounds."""


def pack(value: Any) -> str:
    """Pickle a value as a text, for JSON between processes of this package."""
    return b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    return pickle.loads(b64decode(text))


def print_to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Reporter:
    """Receiver of a worker's heartbeats and messages.

    Attributes:
        on_heartbeat: Called with the name of each step as it begins.
        print_message: Called with each message for the user.
        on_round: See ``OnRounds``.
        on_wait: Called every second of a wait with its reason, and with an empty text at the end.
    """

    on_heartbeat: Callable[[str], object] = lambda stage: None
    print_message: Callable[[str], object] = print_to_stderr
    on_round: OnRounds = lambda rounds, measured: None
    on_wait: Callable[[str], object] = show_waiting


class EngineProcess:
    """A worker in another process, which starts with the first question, and again if it is lost.

    The process reads the model of ``spec`` again, and each step may take ``timeout_s``.
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
        """The attributes without the process: a copy starts another one."""
        return self.__dict__ | {"child": None, "on_rounds": None}

    def ask(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        """See ``MeasuredBackend.ask``."""
        with engine_failures():
            request = {"question": pack((question, protocol, *arguments))}
            return unpack(self.running().call(request, self.timeout_s))

    def running(self) -> Child:
        """The worker, started if there is none; a fork of this process starts another one."""
        child, on_rounds = self.child, self.on_rounds
        if child is None or child.owner != os.getpid() or not child.alive:
            self.restart()
            with self.spec.as_file() as model:
                start = {"model": model, "setup": pack(self.setup), "command": describe_worker()}
                on_steps = (
                    None if on_rounds is None else lambda n, found: on_rounds(n, unpack(found))
                )
                self.child = child = Child(self.module, start, on_steps=on_steps)
                child.call({"question": pack(())}, self.timeout_s)
        return child

    def restart(self) -> None:
        """End the worker; the next question starts it again."""
        if self.child is not None:
            self.child.end()
            self.child = None


def describe_command(arguments: Sequence[str]) -> str:
    """A command line as the user typed it, without folders: ``"python -m package plan"``."""
    # Programs that set their title may have the whole line as their first argument.
    program, *options = " ".join(arguments).split(" ")
    name = Path(program).name
    if name == "__main__.py":
        name = f"python -m {Path(program).parent.name}"
    if name in ("", "-c"):
        name = "python -c"
    return " ".join([name, *options])


def describe_worker() -> str:
    return f"worker of process {os.getpid()}: {describe_command(sys.argv)}"


@contextmanager
def engine_failures() -> Iterator[None]:
    """Translate errors of a worker's process into failures of the engine and errors of the user."""
    try:
        yield
    except ChildNotStartedError as error:
        raise EngineFailureError(Kind.TRANSIENT, f"the engine's process: {error}") from error
    except ChildLostError as error:
        raise EngineFailureError(Kind.DEAD, f"the engine's process: {error}") from error
    except RemoteError as error:
        raise translate(error) from error


def translate(error: RemoteError) -> EngineError | UserError:
    values, message = error.values, error.values["message"]
    if "kind" in values:
        return EngineFailureError(Kind(values["kind"]), message)
    for known in (UserError, EngineError):
        if known.__name__ in values["types"]:
            return known(message)
    return EngineError(f"the engine's process failed: {values['types'][0]}: {message}")


@dataclass(frozen=True)
class Inspection:
    """Operators, primitives and shapes of a model, from OpenVINO.

    Attributes:
        operators: (n_devices,) names of the operators that each device supports.
        primitives: Operator -> the primitive that the CPU executes; None if not requested.
        found: Shapes that the data decide, for each shape of the request; empty if there are none.
    """

    operators: list[list[str]]
    primitives: dict[str, str] | None
    found: Sequence[FoundShapes] = field(default_factory=list)


def inspect_in_new_process(
    spec: ModelSpec, devices: Sequence[DeviceSpec], timeout_s: float
) -> Inspection:
    """``inspector.read_and_inspect`` in another process, which may crash or hang."""
    with engine_failures(), spec.as_file() as model:
        child = Child(INSPECTOR, {"command": describe_worker()})
        try:
            request = {"model": model, "devices": pack(tuple(devices))}
            return unpack(child.call(request, timeout_s))
        finally:
            child.end()
