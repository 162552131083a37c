"""Interference: the share of time that other programs took, and warnings of a session.

Linux counts this time. Elsewhere, and before a measurement, there is only the load average.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import NamedTuple

import numpy as np

from placement_gym.backends import Measurement
from placement_gym.hardware import DeviceSpec, usable_cores

DISTURBED = 0.1
"""Share of time taken by other programs from which a sample is repeated. Hand-tuned: it is below
0.01 on an idle machine, rarely 0.05, and 0.8 with one other program for each core."""
MAX_LOAD_PER_CORE = 1.5
"""Load average per core above which a machine is busy. Hand-tuned: a measurement adds up to 1."""
WATCHED_S = 0.5
"""Seconds of ``is_calm``. Hand-tuned: 50 ticks of each core."""
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
THREADS, PROCESSOR = Path("/proc/self/task"), Path("/proc/stat")


class Usage(NamedTuple):
    """Seconds so far, or between two readings.

    Attributes:
        clock_s: Time of the clock.
        ran_s: Time that threads of this process ran, also those that have ended.
        waited_s: Time that threads of this process waited for a core.
        stolen_s: Time, per core, that the host of a virtual machine gave to others.
        busy_s: Time that cores of the machine ran anything, in ticks; infinite if unknown.
    """

    clock_s: float
    ran_s: float
    waited_s: float
    stolen_s: float
    busy_s: float = inf

    def since(self, before: Usage) -> Usage:
        """The usage between two readings; ``busy_s`` is NaN if it is unknown."""
        return Usage(*(now - then for now, then in zip(self, before, strict=True)))


def is_visible() -> bool:
    """Return whether the system counts the time that threads wait for a core."""
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
    used = read_usage().since(before)
    if not isfinite(used.busy_s):
        return read_load()[0] < 1.0
    return used.busy_s - used.ran_s < DISTURBED * used.clock_s


def find_waited_s(used: Usage) -> float:
    """Seconds between two readings in which threads waited for other processes.

    Threads of this process also wait for each other where several devices share a processor. So
    the time is limited to the cores' time in which this process did not run, and to the time in
    which other processes kept the machine busy, to within a tick.
    """
    others_s = usable_cores() * used.clock_s - used.ran_s
    if isfinite(used.busy_s):
        others_s = min(others_s, used.busy_s - used.ran_s + 2 * TICK_S)
    return min(used.waited_s, max(others_s, 0.0))


def find_share(used: Usage) -> float:
    """The share of time between two readings that other programs took, from 0 to 1.

    Threads that compute either wait or run, so the share is of the sum of both; of the clock's time
    if that is longer, because another device computed.
    """
    waited_s = find_waited_s(used)
    waited = waited_s / max(used.ran_s + waited_s, used.clock_s, 1e-9)
    return float(min(max(waited, used.stolen_s / max(used.clock_s, 1e-9), 0.0), 1.0))


def find_delay(used: Usage) -> float:
    """An upper bound on the share of time between two readings that other programs added.

    It assumes that everything stood still while any thread waited, and ignores caches and memory
    bandwidth.
    """
    delay_s = find_waited_s(used) + (os.cpu_count() or 1) * used.stolen_s
    return float(min(max(delay_s, 0.0) / max(used.clock_s, 1e-9), 1.0))


def describe_interference(share: float, devices: tuple[DeviceSpec, ...]) -> str:
    """Describe interference, with a note about devices that are not observed."""
    unseen = ", ".join(device.name for device in devices if not device.host)
    scope = f" of the host (use of {unseen} by other programs is not observed)" if unseen else ""
    return f"other programs took {share:.0%} of the time{scope}"


def read_load() -> tuple[float, int]:
    """The load average of the last minute, 0 if unknown, and the number of cores."""
    try:
        return os.getloadavg()[0], os.cpu_count() or 1
    except OSError:
        return 0.0, 1


def predict_interference() -> str:
    """Describe a load that leaves no core to measurements; empty if it does."""
    load, cores = read_load()
    return f"load {load:.1f} on {cores} cores: expect no verdict" if load >= cores else ""


def describe_load() -> str:
    """Describe the load of a busy machine; empty if it is not busy."""
    load, cores = read_load()
    is_busy = load > MAX_LOAD_PER_CORE * cores + 1
    return f"load average {load:.1f} on {cores} cores" if is_busy else ""


MAX_REFERENCE_CHANGE = 0.05
"""Largest relative difference of a reference from the session's median. Hand-tuned: twice the
spread of a pair on an idle machine."""
MAX_TAIL_RATIO = 1.3
"""Largest ratio of the 90th percentile to the median of a reliable measurement. Hand-tuned."""
WINDOW = 31
"""Latest measurements that a session compares with: drift over hours is no fault. Hand-tuned."""
MIN_REFERENCES = 3
"""References of a meaningful median: of fewer, one outlier decides."""


@dataclass
class Session:
    """Findings of one backend's measurements so far.

    Attributes:
        references: The latest medians of the reference device, in ms.
        fastest: The largest speed-up without a warning.
        failures: Bytes of an assignment -> the error for which it is never tried again.
    """

    references: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    fastest: float = 0.0
    failures: dict[bytes, str] = field(default_factory=dict)

    def keep(self, measurement: Measurement) -> Measurement:
        """Add a measurement to the session and return it with a warning."""
        warning = self.find_warning(measurement)
        self.references.append(measurement.reference_ms)
        if not warning:
            self.fastest = max(self.fastest, measurement.speedup)
        return replace(measurement, warning=warning)

    def find_warning(self, measurement: Measurement) -> str:
        if is_visible():
            return measurement.warning
        moved = measurement.warning or self.describe_move(measurement)
        return "; ".join(filter(None, [moved, describe_tail(measurement), describe_load()]))

    def describe_move(self, measurement: Measurement) -> str:
        """Describe how far the reference is from the session's median; empty if it is close."""
        if len(self.references) < MIN_REFERENCES:
            return ""
        change = measurement.reference_ms / float(np.median(self.references)) - 1.0
        return f"the reference moved by {change:+.0%}" if abs(change) > MAX_REFERENCE_CHANGE else ""

    def is_worth_repeating(self, measurement: Measurement) -> bool:
        """Return whether the reference moved while the load average was low."""
        moved = measurement.warning or self.describe_move(measurement)
        return bool(moved) and not is_visible() and not describe_load()


def settle_reference(measurement: Measurement) -> Measurement:
    """The measurement of the reference against itself, with a speed-up of 1 by definition.

    Where the system does not count interference, a large difference gives a warning.
    """
    difference = measurement.latency_ms / measurement.reference_ms - 1.0
    differs = abs(difference) > max(MAX_REFERENCE_CHANGE, measurement.noise) and not is_visible()
    return replace(
        measurement,
        latency_ms=measurement.reference_ms,
        latency_p90_ms=max(measurement.latency_p90_ms, measurement.reference_ms),
        warning=f"the reference differs from itself by {difference:+.0%}"
        if differs
        else measurement.warning,
    )


def describe_tail(measurement: Measurement) -> str:
    tail = measurement.latency_p90_ms / measurement.latency_ms
    return f"the 90th percentile is {tail:.2f} x the median" if tail > MAX_TAIL_RATIO else ""
