"""Lanes: placements that one kernel evaluates together, by vector instructions."""

from __future__ import annotations

LANES = 32
"""Placements evaluated together; shorter loops would be unrolled instead of vectorised."""
MAX_LANE_DEVICES = 3
FEWEST_IN_LANES = 16
"""Batches of fewer placements take less time one by one: unused lanes compute as well."""


def fill_lanes(n_placements: int, n_devices: int) -> bool:
    """Return whether lanes take less time than one placement after another."""
    return n_placements >= FEWEST_IN_LANES and n_devices <= MAX_LANE_DEVICES
