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
"""Seconds until a child must be ready, imports included. Hand-tuned: for a cold disk."""
STARTING = "starting"
MAX_LOG_BYTES = 1_000_000
"""Bytes of a child's standard error that are kept. Hand-tuned."""


class ChildLostError(EngineError):
    """The child exited, or was terminated because it gave no sign of life."""


class ChildNotStartedError(ChildLostError):
    """The system has no process, descriptor or space for the child just now."""


class ChildHungError(ChildLostError):
    """The child gave no sign of life in time and was terminated."""


class RemoteError(EngineError):
    """The request failed in the child.

    Attributes:
        values: What the child reports of it: ``types``, ``message`` and what else it adds.
    """

    def __init__(self, values: Json) -> None:
        super().__init__(values["message"])
        self.values = values


class Child:
    """A process that serves requests one by one; see ``serving.serve``.

    It runs ``python -m module``, without ``multiprocessing``: a script needs no main guard, and
    notebooks and standard input work. Signals of the terminal do not reach it.

    Args:
        module: What it runs.
        start: The first message, which says what to serve; it is not waited for.
        keep_log: Whether its standard error is kept for the message about its end, instead of
            being that of this process.
        on_steps: Called with the number of steps that the child has done of a request, and what
            they found until now.

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
        except BaseException:  # an interrupt too
            self.end()
            raise

    def open(self, module: str, keep_log: bool) -> None:
        """Start the process, with what ends it.

        Raises:
            ChildNotStartedError: The system cannot start a process now.
        """
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
        os.set_blocking(self.pipe_in.fileno(), False)

    def start_process(self, module: str) -> subprocess.Popen[bytes]:
        paths = [str(IMPORT_ROOT), os.environ.get("PYTHONPATH", "")]
        thread = "main" if threading.current_thread() is threading.main_thread() else "other"
        arguments = str(self.heartbeat.descriptor), str(self.owner), thread
        return subprocess.Popen(
            # -P: no file of the working folder hides a module of Python or of this package
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            pass_fds=(self.heartbeat.descriptor,),
            # Not in the terminal's foreground group; and if the parent dies, the system wakes
            # and ends those members of the group that are stopped.
            process_group=0,
        )

    @property
    def pipe_in(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def pipe_out(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def alive(self) -> bool:
        """True if the process accepts requests."""
        return self._finalizer.alive and self.process.poll() is None

    def call(self, request: Mapping[str, Any], timeout_s: float) -> Any:
        """Send a request and wait for its answer.

        Args:
            request: JSON-able.
            timeout_s: Seconds without a sign of life after which the child is terminated.

        Raises:
            ChildLostError: It exited or hangs; the message says why.
            RemoteError: The request failed in the child.
        """
        try:
            self.send(request, timeout_s)
            while not self.wait(timeout_s):
                pass
        except BaseException:  # an interrupt too, or the next request would get this answer
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
        """Wait for more of the answer, for ``longest_s`` at most; returns whether it is there.

        Messages for the user go to standard error as they arrive, warnings are raised.

        Raises:
            ChildLostError: The child exited, or gave no sign of life for ``timeout_s``.
        """
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
        """Show what the child says or waits for, raise its warning, count steps, keep its answer.

        Raises:
            ChildLostError: The message is invalid; the child is terminated.
        """
        try:
            message = json.loads(line)
            kinds = ("say", "wait", "warn", "steps")
            says, waits, warning, steps = (message.get(key) for key in kinds)
        except (ValueError, AttributeError):
            self.end()
            raise ChildLostError(f"it sent an invalid message: {line[:80]!r}") from None
        if says is not None:
            print(says, file=sys.stderr, flush=True)
        elif waits is not None:
            show_waiting(waits)
        elif warning is not None:
            warn_user(warning)
        elif steps is not None:
            if self.on_steps is not None:
                self.on_steps(steps, message.get("found"))
        else:
            self.answer = message

    def check_life(self, timeout_s: float) -> float:
        """Seconds left until the child counts as hung, at least some milliseconds.

        Raises:
            ChildHungError: None are left, and nothing is in the pipe; the child is terminated.
        """
        silent_s, _, stage = self.heartbeat.read()
        if stage == STARTING:
            timeout_s = max(timeout_s, START_S)
        if silent_s > timeout_s and not is_ready(self.pipe_out, select.POLLIN, 0.0):
            self.end()
            remedy = "" if stage != STARTING else ": a larger timeout_s= allows more"
            raise ChildHungError(f"{stage or 'a step'} took more than {timeout_s:g} s{remedy}")
        return max(timeout_s - silent_s, 0.0) + 0.005

    def take(self) -> Any:
        """The answer that has arrived.

        Raises:
            RemoteError: The request failed in the child.
        """
        answer, self.answer = self.answer or {}, None
        if "error" in answer:
            raise RemoteError(answer["error"])
        return answer.get("value")

    def explain_end(self) -> str:
        """Describe the child's exit: signal or status, and the last line of its output."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5.0)
        message = self.last_line()
        self.end()
        return describe_exit(self.process.returncode) + (f": {message}" if message else "")

    def last_line(self) -> str:
        """The last line of its standard error, if that is kept."""
        if self.log is None:
            return ""
        start = max(os.fstat(self.log).st_size - 2000, 0)
        lines = os.pread(self.log, 2000, start).decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def end(self) -> None:
        """Kill the child; no effect if it has ended."""
        self._finalizer()


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block: no started process is orphaned."""
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
    """Descriptor of a file that is gone when it is closed."""
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def end_process(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill a process and close its pipes; a fork of its owner only closes them."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def is_ready(pipe: IO[bytes], events: int, longest_s: float) -> bool:
    """Wait ``longest_s`` or an hour until a pipe can be read or written, or has broken."""
    poller = select.poll()  # unlike select, it takes descriptors of any number
    poller.register(pipe, events)
    return bool(poller.poll(1e3 * min(longest_s, 3600.0)))


def describe_exit(status: int | None) -> str:
    """``"killed by SIGSEGV"`` or ``"exited with status 3"``."""
    if status is not None and status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exited with status {status}"
