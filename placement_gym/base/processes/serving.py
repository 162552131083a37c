"""The child's side: answer requests until the parent ends."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import IO, Any

from placement_gym.base.processes.heartbeat import Heartbeat

Json = dict[str, Any]
Handle = Callable[[Json], Any]
POLL_S = 0.1
"""Seconds between checks that the parent is alive. Hand-tuned."""
PR_SET_PDEATHSIG = 1
"""Option of prctl(2): signal at the parent's death."""


class Parent:
    """Requests of the parent and messages to it, a line of JSON each.

    They have separate descriptors: prints go to standard error, and standard input is empty.
    """

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.heartbeat = heartbeat
        self.requests: IO[bytes] = os.fdopen(os.dup(0), "rb")
        self.messages: IO[bytes] = os.fdopen(os.dup(1), "wb")
        with open(os.devnull, "rb") as null_device:  # noqa: PTH123  a descriptor is needed
            os.dup2(null_device.fileno(), 0)
        os.dup2(2, 1)

    def next_request(self) -> Json | None:
        """Wait for the next request; None if the parent has exited."""
        line = self.requests.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def tell(self, **message: Any) -> None:
        self.messages.write(json.dumps(message).encode() + b"\n")
        self.messages.flush()

    def count(self, steps: float, found: Any = None) -> None:
        """Send the number of finished steps of a request, and their result so far."""
        self.tell(steps=steps, found=found)

    def print_message(self, text: str) -> None:
        self.tell(say=text)

    def show_waiting(self, text: str) -> None:
        """Send the reason of a wait for the parent's bar; empty when it is over."""
        self.tell(wait=text)


def serve(make_handle: Callable[[Json, Parent], Handle]) -> None:
    """Answer the requests of the parent that started this process as a ``Child``.

    ``make_handle`` makes the function that answers from the first message. If it fails, the first
    request gets the error and the process ends.
    """
    leave_out_telemetry()
    parent = Parent(Heartbeat(int(sys.argv[1])))
    exit_with_parent(int(sys.argv[2]), of_main_thread=sys.argv[3] == "main")
    start = parent.next_request()
    if start is None:
        return
    try:
        handle = make_handle(start, parent)
    except (Exception, SystemExit) as error:
        parent.tell(error=describe(error))
        return
    parent.heartbeat.touch("a request")
    while (request := parent.next_request()) is not None:
        answer_request(parent, handle, request)


def leave_out_telemetry() -> None:
    """Load OpenVINO without its telemetry, whose process would disturb measurements."""
    modules: dict[str, Any] = sys.modules
    modules.setdefault("openvino_telemetry", None)  # imports of it fail from now on


def answer_request(parent: Parent, handle: Handle, request: Json) -> None:
    """Send the warnings of a request, then its value or error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        try:
            answer = {"value": handle(request)}
        except (Exception, SystemExit) as error:
            answer = {"error": describe(error)}
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            parent.tell(warn=str(warning.message))
    parent.tell(**answer)


def describe(error: BaseException) -> Json:
    """Return an exception's types, message and ``to_json`` values."""
    added = error.to_json() if hasattr(error, "to_json") else {}
    return {
        "types": [kind.__name__ for kind in type(error).__mro__],
        "message": str(error),
        **added,
    }


def exit_with_parent(parent: int, of_main_thread: bool = False) -> None:
    """End this process when its parent has ended, even if that was killed."""
    # Linux kills this process when the thread that started it ends, so it is asked only for the
    # main thread. For other threads `watch` ends the process, after calls that hold Python's lock.
    if of_main_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
