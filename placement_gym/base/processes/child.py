"""The parent's side of a child process: requests with deadlines."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any

from placement_gym.base import IMPORT_ROOT, EngineError, show_waiting, warn_user
from placement_gym.base.processes.heartbeat import Heartbeat

Json = dict[str, Any]
START_S = 120.0
"""Maximum seconds of a child's start with its imports. Hand-tuned for a cold disk."""
STARTING = "starting"
MAX_LOG_BYTES = 1_000_000
"""Maximum bytes of a child's standard error that are kept. Hand-tuned."""


class ChildLostError(EngineError):
    """The child exited or was terminated."""


class ChildNotStartedError(ChildLostError):
    """The system has no process, descriptor or space for the child."""


class ChildHungError(ChildLostError):
    """The child gave no sign of life in time and was terminated."""


class RemoteError(EngineError):
    """The request failed in the child; ``values`` are ``types``, ``message`` and added ones."""

    def __init__(self, values: Json) -> None:
        super().__init__(values["message"])
        self.values = values


class Child:
    """A process ``python -m module`` that serves requests one by one; see ``serving.serve``.

    Unlike with ``multiprocessing``, scripts need no main guard. Signals of the terminal do not
    reach it.

    Args:
        module: The module to run.
        start: First message, which has no answer.
        keep_log: Keep its standard error for the message about its end, instead of sharing it.
        on_steps: Called with the number of finished steps of a request and their result so far.

    Raises:
        ChildNotStartedError: The system cannot start a process now.
    """

    def __init__(
        self,
        module: str,
        start: Json,
        keep_log: bool = True,
        on_steps: Callable[[float, Any], object] | None = None,
    ) -> None:
        self.owner = os.getpid()
        self.on_steps = on_steps
        self.received = b""
        self.answer: Json | None = None
        self._finalizer = weakref.finalize(self, lambda: None)
        try:
            self.open(module, keep_log)
            self.heartbeat.touch(STARTING)
            self.send(start, START_S)
        except BaseException:  # also an interrupt
            self.end()
            raise

    def open(self, module: str, keep_log: bool) -> None:
        """Start the process and register its end."""
        try:
            with defer_interrupt(), ExitStack() as opened:
                self.heartbeat = Heartbeat()
                opened.callback(self.heartbeat.close)
                self.log = open_unnamed_file() if keep_log else None
                if self.log is not None:
                    opened.callback(os.close, self.log)
                self.process = self.start_process(module)
                opened.callback(end_process, self.process, self.owner)
                self._finalizer = weakref.finalize(self, opened.pop_all().close)
        except OSError as error:
            raise ChildNotStartedError(f"it cannot start: {error.strerror or error}") from error
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.pipe_in, self.pipe_out = self.process.stdin, self.process.stdout
        os.set_blocking(self.pipe_in.fileno(), False)

    def start_process(self, module: str) -> subprocess.Popen[bytes]:
        paths = [str(IMPORT_ROOT), os.environ.get("PYTHONPATH", "")]
        thread = "main" if threading.current_thread() is threading.main_thread() else "other"
        arguments = str(self.heartbeat.descriptor), str(self.owner), thread
        return subprocess.Popen(
            # -P: files of the working folder do not hide modules
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            pass_fds=(self.heartbeat.descriptor,),
            # The terminal's signals do not reach this group; if the parent dies, the system also
            # ends stopped members.
            process_group=0,
        )

    @property
    def alive(self) -> bool:
        """True if the process accepts requests."""
        return self._finalizer.alive and self.process.poll() is None

    def call(self, request: Mapping[str, Any], timeout_s: float) -> Any:
        """Send a request and wait for its answer.

        Raises:
            ChildLostError: It exited, or was terminated after ``timeout_s`` without a sign of life.
            RemoteError: The request failed in the child.
        """
        try:
            self.send(request, timeout_s)
            while not self.wait(timeout_s):
                pass
        except BaseException:  # also an interrupt: the next request would get this answer
            self.end()
            show_waiting("")
            raise
        return self.take()

    def send(self, request: Mapping[str, Any], timeout_s: float) -> None:
        """Send a request; the child may be too slow or dead to read it."""
        if self.log is not None and os.fstat(self.log).st_size > MAX_LOG_BYTES:
            os.ftruncate(self.log, 0)
            os.lseek(self.log, 0, os.SEEK_SET)  # the child writes at the same position
        if self.heartbeat.read()[2] != STARTING:
            self.heartbeat.touch("a request")
        unsent = memoryview(json.dumps(request).encode() + b"\n")
        while unsent:
            self.check_life(timeout_s)
            if is_ready(self.pipe_in, select.POLLOUT, 1.0):
                try:
                    unsent = unsent[os.write(self.pipe_in.fileno(), unsent) :]
                except OSError:
                    raise ChildLostError(self.explain_end()) from None

    def wait(self, timeout_s: float, longest_s: float = float("inf")) -> bool:
        """Wait at most ``longest_s`` for messages; return whether the answer has arrived."""
        left_s = min(self.check_life(timeout_s), longest_s)
        if is_ready(self.pipe_out, select.POLLIN, left_s):
            got = os.read(self.pipe_out.fileno(), 1 << 16)
            if not got:
                raise ChildLostError(self.explain_end())
            *lines, self.received = (self.received + got).split(b"\n")
            for line in lines:
                self.handle_message(line)
        return self.answer is not None

    def handle_message(self, line: bytes) -> None:
        """Show a message of the child, or keep its answer."""
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        match message:
            case {"say": text}:
                print(text, file=sys.stderr, flush=True)
            case {"wait": reason}:
                show_waiting(reason)
            case {"warn": warning}:
                warn_user(warning)
            case {"steps": steps}:
                if self.on_steps is not None:
                    self.on_steps(steps, message.get("found"))
            case dict():
                self.answer = message
            case _:
                self.end()
                raise ChildLostError(f"it sent an invalid message: {line[:80]!r}")

    def check_life(self, timeout_s: float) -> float:
        """Return the seconds until the child counts as hung; if none are left, end it and raise."""
        silent_s, _, stage = self.heartbeat.read()
        if stage == STARTING:
            timeout_s = max(timeout_s, START_S)
        if silent_s > timeout_s and not is_ready(self.pipe_out, select.POLLIN, 0.0):
            self.end()
            remedy = "" if stage != STARTING else ": a larger timeout_s= allows more"
            raise ChildHungError(f"{stage or 'a step'} took more than {timeout_s:g} s{remedy}")
        return max(timeout_s - silent_s, 0.0) + 0.005

    def take(self) -> Any:
        """Return the answer that has arrived, or raise its ``RemoteError``."""
        answer, self.answer = self.answer or {}, None
        if "error" in answer:
            raise RemoteError(answer["error"])
        return answer.get("value")

    def explain_end(self) -> str:
        """Describe the child's exit, with the last line of its output."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5.0)
        message = self.last_line()
        self.end()
        return describe_exit(self.process.returncode) + (f": {message}" if message else "")

    def last_line(self) -> str:
        """Return the last line of its standard error, if that is kept."""
        if self.log is None:
            return ""
        start = max(os.fstat(self.log).st_size - 2000, 0)
        lines = os.pread(self.log, 2000, start).decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def end(self) -> None:
        """Kill the child if it runs."""
        self._finalizer()


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block, so that no started process is orphaned."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    signals: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: signals.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if signals and callable(handler):
            handler(*signals[0])


def open_unnamed_file() -> int:
    """Return the descriptor of a file that is deleted when it is closed."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def end_process(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill a process and close its pipes; in a fork of its owner, only close them."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def is_ready(pipe: IO[bytes], events: int, longest_s: float) -> bool:
    """Wait at most ``longest_s`` or an hour until a pipe is ready or broken."""
    poller = select.poll()  # unlike select, it takes descriptors of any number
    poller.register(pipe, events)
    return bool(poller.poll(1e3 * min(longest_s, 3600.0)))


def describe_exit(status: int | None) -> str:
    """Return ``"killed by SIGSEGV"`` or ``"exited with status 3"``."""
    if status is None or status >= 0:
        return f"exited with status {status}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"
