"""The child's side: it answers requests until its parent ends."""

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
"""Seconds between two looks whether the parent is alive. Hand-tuned."""
TELEMETRY = "openvino_telemetry"
"""OpenVINO's package for telemetry."""
PR_SET_PDEATHSIG = 1
"""Option of prctl(2): the signal that a process gets when its parent dies."""


class Parent:
    """Requests of the parent and messages to it, one JSON document a line.

    They have their own descriptors: what anything prints to standard output goes to
    standard error, and standard input is empty.
    """

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.heartbeat = heartbeat
        self.requests: IO[bytes] = os.fdopen(os.dup(0), "rb")
        self.messages: IO[bytes] = os.fdopen(os.dup(1), "wb")
        with open(os.devnull, "rb") as null_device:  # noqa: PTH123  a descriptor is needed
            os.dup2(null_device.fileno(), 0)
        os.dup2(2, 1)

    def next_request(self) -> Json | None:
        """The next request, or None if the parent has exited."""
        line = self.requests.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def tell(self, **message: Any) -> None:
        """Send a message."""
        self.messages.write(json.dumps(message).encode() + b"\n")
        self.messages.flush()

    def count(self, steps: float, found: Any = None) -> None:
        """Send how many steps of a request are done, and what they found until now."""
        self.tell(steps=steps, found=found)

    def print_message(self, text: str) -> None:
        """Send a text for the parent to print at once."""
        self.tell(say=text)

    def show_waiting(self, text: str) -> None:
        """Send the reason of a wait for the parent's progress bar; empty if the wait is over."""
        self.tell(wait=text)


def serve(make_handle: Callable[[Json, Parent], Handle]) -> None:
    """Answer the requests of the parent that started this process as a ``Child``.

    Args:
        make_handle: Makes what answers, from the first message; if it fails, the first request
            gets the error and the process ends.
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
    """Have OpenVINO load as where its package for telemetry is not installed.

    Otherwise ``import openvino`` sends usage data from a separate process, while this one
    measures, and waits for it where a firewall drops it. A user's program is left unchanged.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault(TELEMETRY, None)  # its import fails from now on


def answer_request(parent: Parent, handle: Handle, request: Json) -> None:
    """Answer one request with a value or an error, after the warnings that it raised."""
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
    """An exception as JSON: its types, its message, and what ``to_json`` adds."""
    added = error.to_json() if hasattr(error, "to_json") else {}
    return {
        "types": [kind.__name__ for kind in type(error).__mro__],
        "message": str(error),
        **added,
    }


def exit_with_parent(parent: int, of_main_thread: bool = False) -> None:
    """End this process as soon as its parent has ended, even if that one was killed.

    Args:
        parent: Process id of the one that started this one.
        of_main_thread: Whether its main thread did. Linux then kills this process, whatever it
            is doing. Otherwise a thread of this process ends it, which has to wait for calls that
            keep Python's lock: Linux would kill it as soon as the thread that started it ends.
    """
    if of_main_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
