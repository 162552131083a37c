"""Interference: the share of a sample's time that other programs took, or else the load average.

Linux counts the former. Elsewhere there is only the load average, as before a measurement starts.
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf, isfinite
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import NamedTuple

from placement_gym.hardware import DeviceSpec

DISTURBED = 0.1
"""Smallest share of a sample's time taken by other programs for which it is repeated: ours. On an
idle machine the share is below 0.01, rarely 0.05; next to one program for each core it was 0.8."""
MAX_LOAD_PER_CORE = 1.5
"""Load average per core above which a machine counts as busy: ours; a measurement itself adds up to
1 for each core."""
WATCHED_S = 0.5
"""Ours: 50 ticks of each core."""
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
    """Return whether the system counts how long threads wait for a core."""
    return (THREADS / str(os.getpid()) / "schedstat").is_file()


def read_usage() -> Usage:
    """Read the usage of this process; zeros where the system does not count it."""
    waited_ns = 0
    for thread in os.listdir(THREADS) if THREADS.is_dir() else ():  # noqa: PTH208  twice as fast
        with suppress(OSError):  # it has ended, or there is no such file
            waited_ns += int((THREADS / thread / "schedstat").read_text().split()[1])
    stolen_s, busy_s = 0.0, inf
    with suppress(OSError, ValueError):
        # of all cores: user, nice, system, idle, waiting for devices, interrupts (2), stolen
        ticks = PROCESSOR.read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, _, _, irq, softirq, steal = map(int, ticks)
        stolen_s = steal * TICK_S / (os.cpu_count() or 1)
        busy_s = (user + nice + system + irq + softirq) * TICK_S
    return Usage(perf_counter(), process_time(), waited_ns / 1e9, stolen_s, busy_s)


def is_calm() -> bool:
    """Return whether other programs leave the machine alone, watched for ``WATCHED_S``."""
    before = read_usage()
    sleep(WATCHED_S)
    after = read_usage()
    if not isfinite(after.busy_s):
        return read_load()[0] < 1.0
    others_s = after.busy_s - before.busy_s - (after.ran_s - before.ran_s)
    return others_s < DISTURBED * (after.clock_s - before.clock_s)


def count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_waited_s(before: Usage, after: Usage) -> float:
    """Seconds between two readings in which threads waited for other processes.

    Where several devices of one processor compute at once, this process has more threads than
    cores, and they wait for each other. Other processes had at most the cores' time in which this
    one did not run, and at most the time in which the machine was busy beyond it, to within a tick.
    """
    clock_s, ran_s, waited_s, _ = (b - a for a, b in zip(before[:4], after[:4], strict=True))
    others_s = count_cores() * clock_s - ran_s
    if isfinite(before.busy_s):
        others_s = min(others_s, after.busy_s - before.busy_s - ran_s + 2 * TICK_S)
    return min(waited_s, max(others_s, 0.0))


def find_share(before: Usage, after: Usage) -> float:
    """The share of the time between two readings that other programs took, from 0 to 1.

    Threads that compute either wait or run, so the share is of the sum of both. While a device
    other than the processor computes they do neither, and the share is of the clock's time.
    """
    clock_s, ran_s, _, stolen_s = (b - a for a, b in zip(before[:4], after[:4], strict=True))
    waited_s = find_waited_s(before, after)
    waited = waited_s / max(ran_s + waited_s, clock_s, 1e-9)
    return float(min(max(waited, stolen_s / max(clock_s, 1e-9), 0.0), 1.0))


def find_delay(before: Usage, after: Usage) -> float:
    """An upper bound on the share of the time between two readings that other programs added.

    It assumes that everything stood still whenever a thread waited. Use of caches and of memory
    bandwidth is not counted.
    """
    clock_s, stolen_s = after.clock_s - before.clock_s, after.stolen_s - before.stolen_s
    delay_s = find_waited_s(before, after) + (os.cpu_count() or 1) * stolen_s
    return float(min(max(delay_s, 0.0) / max(clock_s, 1e-9), 1.0))


def describe(share: float, devices: tuple[DeviceSpec, ...]) -> str:
    """Describe interference, with a note where some device is not observed."""
    unseen = ", ".join(device.name for device in devices if not device.host)
    scope = f" of the host (use of {unseen} by other programs is not observed)" if unseen else ""
    return f"other programs took {share:.0%} of the time{scope}"


def read_load() -> tuple[float, int]:
    """The load average of the last minute, 0 where there is none, and the number of cores."""
    try:
        return os.getloadavg()[0], os.cpu_count() or 1
    except OSError:
        return 0.0, 1


def predict_interference() -> str:
    """Describe a load that leaves no core to measurements; empty if there is one."""
    load, cores = read_load()
    return f"load {load:.1f} on {cores} cores: expect no verdict" if load >= cores else ""


def describe_load() -> str:
    """Describe what else keeps the machine busy; empty if nothing does."""
    load, cores = read_load()
    return (
        f"load average {load:.1f} on {cores} cores" if load > MAX_LOAD_PER_CORE * cores + 1 else ""
    )
