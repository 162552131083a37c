"""A limit on the seconds that a block takes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from placement_gym.base.progress import describe_shown


@dataclass
class TimeLimit:
    """Outcome of a block with a time limit.

    Attributes:
        passed: True once it has.
        stopped_at: What the progress bar showed then, or an empty string.
    """

    passed: bool = False
    stopped_at: str = ""


@contextmanager
def time_limit(seconds: float) -> Iterator[TimeLimit]:
    """Interrupt the block after some seconds, as Ctrl-C would.

    Whatever cleans up after Ctrl-C does so: the block raises ``KeyboardInterrupt``, and what is
    yielded tells it from that of the user. Only the main thread can be interrupted: in others
    there is no limit.
    """
    limit = TimeLimit()
    if threading.current_thread() is not threading.main_thread():
        yield limit
        return

    def interrupt(*_: object) -> None:
        limit.passed, limit.stopped_at = True, describe_shown()
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))  # 0 would mean no limit
    try:
        yield limit
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
