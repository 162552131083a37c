"""Clocks that stop while kernels are compiled or loaded, which happens once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time


class Clock:
    """Seconds of ``read`` from an arbitrary start, without those in which the clock is stopped."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.read = read
        self.stops, self.stopped_at, self.stopped_s = 0, 0.0, 0.0

    def __call__(self) -> float:
        return (self.stopped_at if self.stops else self.read()) - self.stopped_s

    def stop(self) -> None:
        """Stop until ``resume`` is called as often: compilations are nested."""
        if not self.stops:
            self.stopped_at = self.read()
        self.stops += 1

    def resume(self) -> None:
        self.stops -= 1
        if not self.stops:
            self.stopped_s += self.read() - self.stopped_at


now_s, cpu_now_s = Clock(perf_counter), Clock(process_time)
"""Wall time and CPU time of this process."""


def stop_clocks() -> None:
    for clock in (now_s, cpu_now_s):
        clock.stop()


def resume_clocks() -> None:
    for clock in (now_s, cpu_now_s):
        clock.resume()


@contextmanager
def clocks_stopped() -> Iterator[None]:
    stop_clocks()
    try:
        yield
    finally:
        resume_clocks()
