"""Kinds of failure of an engine, and the consequence of each."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from placement_gym.backends.protocol import Measurement
from placement_gym.base import EngineError, last_line


class Kind(StrEnum):
    """Kinds of failures."""

    INFEASIBLE = "infeasible"
    """The engine always refuses the placement, or computes wrong outputs."""
    TRANSIENT = "transient"
    """The machine lacks memory or time, whatever the placement."""
    DEAD = "engine dead"
    """The engine's process ended or hangs."""
    INVALID_VALUE = "invalid value"
    """A latency is NaN, infinite, zero or negative."""


@dataclass(frozen=True)
class Consequence:
    """Consequence of a failure.

    Attributes:
        pauses_s: Seconds before each retry.
        restart: Whether retries get a new process.
        is_result: Whether the placement is infeasible if all attempts fail; otherwise the run ends.
        remembered: Whether the backend never tries the placement again.
    """

    pauses_s: tuple[float, ...] = ()
    restart: bool = False
    is_result: bool = True
    remembered: bool = False


POLICIES = {
    Kind.INFEASIBLE: Consequence(),
    Kind.TRANSIENT: Consequence((0.5, 2.0, 8.0, 30.0), restart=True, is_result=False),
    Kind.DEAD: Consequence((0.0,), restart=True, remembered=True),
    Kind.INVALID_VALUE: Consequence((0.0, 0.5), remembered=True),
}
PATTERNS = (
    # A device's memory limits the placement; the host's is shared with other programs.
    (Kind.INFEASIBLE, r"CL_MEM_OBJECT_ALLOCATION_FAILURE|CL_INVALID_BUFFER_SIZE"),
    (Kind.INFEASIBLE, r"OUT_OF_DEVICE_MEMORY|exceed(s|ed) max size of memory object"),
    # OpenVINO's GPU plugin reports OpenCL's errors, those above and below, by number.
    (Kind.INFEASIBLE, r"(\[GPU\]|\[CL ext\]).* error( code)?: -(4|61)\b"),
    (Kind.TRANSIENT, r"(\[GPU\]|\[CL ext\]).* error( code)?: -(5|6)\b"),
    (Kind.TRANSIENT, r"bad_alloc|out of (host |system )?memory|cannot allocate memory"),
    # From the CPU plugin and its code generator; other plugins write their name before it.
    (Kind.TRANSIENT, r"can't (alloc|protect)\b|(?<!\] )failed to allocate \d+ bytes"),
    (Kind.TRANSIENT, r"CL_OUT_OF_(RESOURCES|HOST_MEMORY)|OUT_OF_HOST_MEMORY"),
    (Kind.TRANSIENT, r"temporarily unavailable|resource (is )?busy|device (is )?busy|try again"),
    (Kind.TRANSIENT, r"too many open files|no space left|interrupted system call"),
    (Kind.DEAD, r"device (is )?lost|DEVICE_LOST|CL_DEVICE_NOT_AVAILABLE"),
)
"""Kinds, and case-insensitive patterns in messages of exceptions; the first match counts."""


class EngineFailureError(EngineError):
    """A failure of the engine, with its kind and the reason in one line."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind

    @property
    def policy(self) -> Consequence:
        return POLICIES[self.kind]

    def to_json(self) -> dict[str, Any]:
        """The attributes that another process needs."""
        return {"kind": self.kind}


def classify(error: BaseException) -> EngineFailureError:
    """Classify any exception of the engine as a failure."""
    if isinstance(error, EngineFailureError):
        return error
    reason = last_line(error)
    if not isinstance(error, RuntimeError):
        reason = f"{type(error).__name__}: {reason}"
    if isinstance(error, MemoryError):
        return EngineFailureError(Kind.TRANSIENT, reason)
    text = f"{error}\n{error.__cause__ or ''}"
    matching = (kind for kind, pattern in PATTERNS if re.search(pattern, text, re.I))
    return EngineFailureError(next(matching, Kind.INFEASIBLE), reason)


def check_values(measurement: Measurement) -> Measurement:
    """Return a measurement if its latencies are possible.

    Raises:
        EngineFailureError: One is NaN, infinite, negative or zero, or the 90th percentile is
            below the median.
    """
    median, reference = measurement.latency_ms, measurement.reference_ms
    tail, noise = measurement.latency_p90_ms, measurement.noise
    if not all(0.0 < value < math.inf for value in (median, reference, tail)) or tail < median:
        raise EngineFailureError(
            Kind.INVALID_VALUE,
            f"the clock showed {median} ms (90th percentile {tail}), and for the reference "
            f"{reference} ms",
        )
    if math.isnan(noise) or noise < 0.0:
        raise EngineFailureError(Kind.INVALID_VALUE, f"the clock showed a noise of {noise}")
    return measurement
