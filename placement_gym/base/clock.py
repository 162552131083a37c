"""Clocks that stop while kernels are compiled or read from disk, which happens once.

Times and time limits are those of a process whose kernels are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time


class Clock:
    """Seconds, of which differences count, without those in which the clock was stopped.

    Args:
        read: A clock that never stops.
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read
        self.stops, self.stopped_at, self.stopped_s = 0, 0.0, 0.0

    def __call__(self) -> float:
        return (self.stopped_at if self.stops else self.read()) - self.stopped_s

    def stop(self) -> None:
        """Stop until ``resume`` was called as often: a kernel is compiled within another."""
        if not self.stops:
            self.stopped_at = self.read()
        self.stops += 1

    def resume(self) -> None:
        """See ``stop``."""
        self.stops -= 1
        if not self.stops:
            self.stopped_s += self.read() - self.stopped_at


now_s, cpu_now_s = Clock(perf_counter), Clock(process_time)
"""Wall time, and the time of this process."""


def stop_clocks() -> None:
    """Stop both; kernels are compiled one at a time, by whichever thread."""
    for clock in (now_s, cpu_now_s):
        clock.stop()


def resume_clocks() -> None:
    """See ``stop_clocks``."""
    for clock in (now_s, cpu_now_s):
        clock.resume()


@contextmanager
def clocks_stopped() -> Iterator[None]:
    """Stop both for a block."""
    stop_clocks()
    try:
        yield
    finally:
        resume_clocks()
