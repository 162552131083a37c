"""The health of a session of measurements: is the machine what it was?

Where the system shows what other programs took of each sample, that is all (``interference``).
Elsewhere a load average, a reference that moved and a long tail have to do.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from placement_gym.backends.measured.interference import describe_load, is_visible
from placement_gym.backends.protocol import Measurement

MOVED = 0.05
"""Largest share by which a reference may differ from the session's median."""
LONG_TAIL = 1.3
"""Largest ratio of the 90th percentile to the median."""
WINDOW = 31
"""Measurements after which a session has forgotten: drift over hours is not a fault."""
FEW = 3
"""Fewer references do not show what is usual."""


@dataclass
class Session:
    """Findings of one backend's measurements so far.

    Attributes:
        references: The latest medians of the reference device, ms.
        noises: The latest half-widths.
        fastest: The largest speed-up so far of a measurement without doubt.
        failures: Assignment, as bytes, to the reason why it is never tried again.
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
        """Learn from a measurement; returned with its doubt and the noise floor."""
        doubt = self.find_doubt(measurement)
        self.references.append(measurement.reference_ms)
        self.noises.append(measurement.noise)
        if not doubt:
            self.fastest = max(self.fastest, measurement.speedup)
        return replace(measurement, doubt=doubt, noise_floor=self.noise_floor)

    def find_doubt(self, measurement: Measurement) -> str:
        """Why a measurement is doubtful, or an empty string."""
        if is_visible():
            return measurement.doubt
        moved = measurement.doubt or self.describe_move(measurement)
        return "; ".join(filter(None, [moved, describe_tail(measurement), describe_load()]))

    def describe_move(self, measurement: Measurement) -> str:
        """By how much the reference differs from the session's, or an empty string."""
        if len(self.references) < FEW:
            return ""
        moved = measurement.reference_ms / float(np.median(self.references)) - 1.0
        return f"the reference moved by {moved:+.0%}" if abs(moved) > MOVED else ""

    def is_worth_repeating(self, measurement: Measurement) -> bool:
        """Return whether the reference moved, on a machine that is not busy anyway."""
        if is_visible():
            return False
        moved = measurement.doubt or self.describe_move(measurement)
        return bool(moved) and not describe_load()


def settle_reference(measurement: Measurement) -> Measurement:
    """The measurement of the reference against itself: its speed-up is 1 by definition.

    What its two samples differ by is an error, and where nothing else shows what disturbed them
    too large a one makes it doubtful.
    """
    off = measurement.latency_ms / measurement.reference_ms - 1.0
    unlike = abs(off) > max(MOVED, measurement.noise) and not is_visible()
    return replace(
        measurement,
        latency_ms=measurement.reference_ms,
        latency_p90_ms=max(measurement.latency_p90_ms, measurement.reference_ms),
        doubt=f"the reference differs from itself by {off:+.0%}" if unlike else measurement.doubt,
    )


def mark_busy(measurement: Measurement) -> Measurement:
    """A measurement of no session, with its doubt."""
    return replace(
        measurement, doubt=Session().find_doubt(measurement), noise_floor=measurement.noise
    )


def describe_tail(measurement: Measurement) -> str:
    """Describe a long tail of latencies; empty if it is short."""
    tail = measurement.latency_p90_ms / measurement.latency_ms
    return f"the 90th percentile is {tail:.2f} x the median" if tail > LONG_TAIL else ""
