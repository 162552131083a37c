"""Clocks that stand while kernels are compiled or read from disk, which happens once.

What is timed with them, or ends by them, takes as long as it does where all kernels are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time


class Clock:
    """Seconds, of which differences count, without those in which the clock was stopped.

    Args:
        read: A clock that never stands.
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read
        self.stops, self.stopped_at, self.stood_s = 0, 0.0, 0.0

    def __call__(self) -> float:
        return (self.stopped_at if self.stops else self.read()) - self.stood_s

    def stop(self) -> None:
        """Stop until ``go_on`` has been called as often: a kernel is compiled with others."""
        if not self.stops:
            self.stopped_at = self.read()
        self.stops += 1

    def go_on(self) -> None:
        """See ``stop``."""
        self.stops -= 1
        if not self.stops:
            self.stood_s += self.read() - self.stopped_at


now_s, cpu_now_s = Clock(perf_counter), Clock(process_time)
"""Wall time, and the time of this process."""


def stop_clocks() -> None:
    """Stop both; kernels are compiled one at a time, by whichever thread."""
    for clock in (now_s, cpu_now_s):
        clock.stop()


def continue_clocks() -> None:
    """See ``stop_clocks``."""
    for clock in (now_s, cpu_now_s):
        clock.go_on()


@contextmanager
def clocks_stopped() -> Iterator[None]:
    """Stop both for a block."""
    stop_clocks()
    try:
        yield
    finally:
        continue_clocks()
