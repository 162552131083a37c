"""A child that does what it is told: ``python -m child_module``."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import time
import warnings
from typing import Any

from placement_gym.base.processes import Parent, serve


class Obedient:
    def __init__(self, start: dict[str, Any], parent: Parent) -> None:
        if "fail" in start:
            raise ValueError(start["fail"])
        self.parent, self.answered = parent, 0

    def __call__(self, request: dict[str, Any]) -> Any:
        ((method, argument),) = request.items()
        answer: Any = getattr(self, method)(argument)
        self.answered += 1
        return answer

    def echo(self, value: Any) -> Any:
        return value

    def imports(self, module: str) -> bool:
        try:
            return bool(importlib.import_module(module))
        except ImportError:
            return False

    def count(self, _: None) -> int:
        return self.answered

    def die(self, name: str) -> None:
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), getattr(signal, name))
        time.sleep(60)

    def leave(self, status: int) -> None:
        os._exit(status)

    def exit(self, status: int) -> None:
        sys.exit(status)

    def work(self, seconds: float) -> str:
        """Gives signs of life all the time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.parent.heartbeat.touch("working")
            time.sleep(0.01)
        return "done"

    def hang(self, seconds: float) -> None:
        self.parent.heartbeat.touch("dreaming")
        time.sleep(seconds)

    def compute(self, seconds: float) -> None:
        """One long call of C, which keeps Python's lock."""
        self.parent.heartbeat.touch("computing")
        ctypes.PyDLL(None).sleep(int(seconds))

    def chatter(self, text: str) -> str:
        """Prints where answers go, as an engine may, from Python and from below it."""
        print(text, flush=True)
        os.write(1, text.encode())
        return "heard"

    def babble(self, text: str) -> None:
        self.parent.messages.write(text.encode() + b"\n")
        self.parent.messages.flush()
        time.sleep(60)

    def warn(self, text: str) -> None:
        warnings.warn(text, UserWarning, stacklevel=2)

    def say(self, text: str) -> None:
        self.parent.print_message(text)

    def wait(self, text: str) -> None:
        self.parent.show_waiting(text)

    def take_steps(self, steps: int) -> None:
        for done in range(steps):
            self.parent.count(done + 1, list(range(done + 1)))

    def read(self, _: None) -> str:
        return sys.stdin.read()


if __name__ == "__main__":
    serve(Obedient)
