"""How quiet the machine is: what other programs took of a sample's time, or else the load average.

Linux counts the first. Elsewhere the load has to do, which is also all that is known beforehand.
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf, isfinite
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

from placement_gym.hardware.devices import DeviceSpec

DISTURBED = 0.1
"""Share of a sample's time that others took from which on it is taken again. On an idle machine it
is below 0.01, seldom 0.05; next to one program for each core it was 0.8."""
BUSY = 1.5
"""Largest load average for each core of the machine."""
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
THREADS, PROCESSOR = Path("/proc/self/task"), Path("/proc/stat")


class Usage(NamedTuple):
    """Seconds so far: of the clock, and those of this process and of the machine.

    Attributes:
        clock_s: Of the clock.
        ran_s: In which its threads ran, also those that have ended.
        waited_s: In which its threads were ready to run, and others had the cores.
        stolen_s: For each core, in which the host of a virtual machine gave it to others.
        busy_s: In which the machine's cores ran anything, in ticks; infinite if it is not known.
    """

    clock_s: float
    ran_s: float
    waited_s: float
    stolen_s: float
    busy_s: float = inf


def is_visible() -> bool:
    """Return whether the system tells how long threads wait for a core."""
    return (THREADS / str(os.getpid()) / "schedstat").is_file()


def read_usage() -> Usage:
    """What this process has used; zeros where the system does not tell."""
    waited_ns = 0
    for thread in os.listdir(THREADS) if THREADS.is_dir() else ():  # noqa: PTH208  twice as fast
        with suppress(OSError):  # it has ended, or there is no such file
            waited_ns += int((THREADS / thread / "schedstat").read_text().split()[1])
    stolen_s, busy_s = 0.0, inf
    with suppress(OSError, ValueError):
        # of all cores: user, nice, system, idle, waiting for devices, interrupts (2), stolen
        first = PROCESSOR.read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, _, _, irq, softirq, steal = map(int, first)
        stolen_s = steal * TICK_S / (os.cpu_count() or 1)
        busy_s = (user + nice + system + irq + softirq) * TICK_S
    return Usage(perf_counter(), process_time(), waited_ns / 1e9, stolen_s, busy_s)


def count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_waited_s(before: Usage, after: Usage) -> float:
    """Seconds between two readings that threads waited for others than each other.

    Where several devices of one processor compute at once, this process has more threads than
    cores. Others had no more than the cores' time in which it did not run, nor more than the
    machine was busy beyond it, as exactly as ticks tell.
    """
    clock_s, ran_s, waited_s, _ = (b - a for a, b in zip(before[:4], after[:4], strict=True))
    others_s = count_cores() * clock_s - ran_s
    if isfinite(before.busy_s):
        others_s = min(others_s, after.busy_s - before.busy_s - ran_s + 2 * TICK_S)
    return min(waited_s, max(others_s, 0.0))


def find_share(before: Usage, after: Usage) -> float:
    """The share of the time between two readings that others took, from 0 to 1.

    Threads that compute wait or run all the time, so that the share of waiting is one of both.
    Where a device other than the processor computes, they do neither: then it is one of the time.
    """
    clock_s, ran_s, _, stolen_s = (b - a for a, b in zip(before[:4], after[:4], strict=True))
    waited_s = find_waited_s(before, after)
    waited = waited_s / max(ran_s + waited_s, clock_s, 1e-9)
    return float(min(max(waited, stolen_s / max(clock_s, 1e-9), 0.0), 1.0))


def find_delay(before: Usage, after: Usage) -> float:
    """The largest share of the time between two readings that others can have added to it.

    As if everything had stood still whenever a thread waited: never more than that. What others
    take of caches and of the memory's bandwidth is not seen.
    """
    clock_s, stolen_s = after.clock_s - before.clock_s, after.stolen_s - before.stolen_s
    delay_s = find_waited_s(before, after) + (os.cpu_count() or 1) * stolen_s
    return float(min(max(delay_s, 0.0) / max(clock_s, 1e-9), 1.0))


def describe(share: float, devices: tuple[DeviceSpec, ...]) -> str:
    """Describe that others took a share of the time; says so where not all devices are seen."""
    unseen = ", ".join(device.name for device in devices if not device.host)
    seen = f" of the host (what others run on {unseen} is not seen)" if unseen else ""
    return f"other programs took {share:.0%} of the time{seen}"


def read_load() -> tuple[float, int]:
    """The load average of the last minute, 0 where there is none, and the number of cores."""
    try:
        return os.getloadavg()[0], os.cpu_count() or 1
    except OSError:
        return 0.0, 1


def predict_doubt() -> str:
    """Describe a load that leaves no core to measurements; empty if there is one."""
    load, cores = read_load()
    return f"load {load:.1f} on {cores} cores: expect no verdict" if load >= cores else ""


def describe_load() -> str:
    """Describe what else keeps the machine busy; empty if nothing does."""
    load, cores = read_load()
    return f"load average {load:.1f} on {cores} cores" if load > BUSY * cores + 1 else ""
