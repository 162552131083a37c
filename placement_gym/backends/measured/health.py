"""Warnings of a session of measurements: signs that the machine was disturbed.

Linux counts the time that other programs took of each sample (``interference``), which is all that
is needed. Elsewhere the signs are the load average, a reference that changed and a long tail.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from placement_gym.backends import Measurement
from placement_gym.backends.measured.interference import describe_load, is_visible

MAX_REFERENCE_CHANGE = 0.05
"""Largest relative difference of a reference from the session's median: ours, twice the spread of
a pair on an idle machine."""
MAX_TAIL_RATIO = 1.3
"""Largest ratio of the 90th percentile to the median of a quiet measurement: ours."""
WINDOW = 31
"""Latest measurements that a session compares with, since drift over hours is not a fault: ours."""
MIN_REFERENCES = 3
"""References whose median is meaningful: with fewer, one outlier decides."""


@dataclass
class Session:
    """Findings of one backend's measurements so far.

    Attributes:
        references: The latest medians of the reference device, ms.
        noises: The latest half-widths.
        fastest: The largest speed-up so far of a measurement without a warning.
        failures: Assignment, as bytes, to the error for which it is not tried again.
    """

    references: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    noises: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    fastest: float = 0.0
    failures: dict[bytes, str] = field(default_factory=dict)

    @property
    def noise_floor(self) -> float:
        """The usual half-width of the uncertainty of a speed-up."""
        return float(np.median(self.noises)) if self.noises else 0.0

    def keep(self, measurement: Measurement) -> Measurement:
        """Add a measurement to the session; returns it with its warning and the noise floor."""
        warning = self.find_warning(measurement)
        self.references.append(measurement.reference_ms)
        self.noises.append(measurement.noise)
        if not warning:
            self.fastest = max(self.fastest, measurement.speedup)
        return replace(measurement, warning=warning, noise_floor=self.noise_floor)

    def find_warning(self, measurement: Measurement) -> str:
        """Describe why a measurement is unreliable; empty if it is reliable."""
        if is_visible():
            return measurement.warning
        warning = measurement.warning or self.describe_move(measurement)
        return "; ".join(filter(None, [warning, describe_tail(measurement), describe_load()]))

    def describe_move(self, measurement: Measurement) -> str:
        """Describe how far the reference is from the session's median; empty if it is close."""
        if len(self.references) < MIN_REFERENCES:
            return ""
        change = measurement.reference_ms / float(np.median(self.references)) - 1.0
        return f"the reference moved by {change:+.0%}" if abs(change) > MAX_REFERENCE_CHANGE else ""

    def is_worth_repeating(self, measurement: Measurement) -> bool:
        """Return whether the reference moved while the load average was low."""
        if is_visible():
            return False
        warning = measurement.warning or self.describe_move(measurement)
        return bool(warning) and not describe_load()


def settle_reference(measurement: Measurement) -> Measurement:
    """The measurement of the reference against itself: its speed-up is 1 by definition.

    The difference between its two samples is an error of measurement. Where the system does not
    show interference, a large one is a reason for a warning.
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


def mark_busy(measurement: Measurement) -> Measurement:
    """Add its warning to a measurement that belongs to no session."""
    return replace(
        measurement, warning=Session().find_warning(measurement), noise_floor=measurement.noise
    )


def describe_tail(measurement: Measurement) -> str:
    """Describe a long tail of latencies; empty if it is short."""
    tail = measurement.latency_p90_ms / measurement.latency_ms
    return f"the 90th percentile is {tail:.2f} x the median" if tail > MAX_TAIL_RATIO else ""
