"""Lanes: placements that one kernel evaluates together, by vector instructions."""

from __future__ import annotations

LANES = 32
"""Placements evaluated together; shorter loops would be unrolled instead of vectorised."""
MAX_LANE_DEVICES = 3
FEWEST_IN_LANES = 16
"""Fewer placements take less time one by one, as unused lanes compute as well. Serial and list
schedules of 9 problems with 7 to 9,199 units each took .91 of that time in lanes for 12 placements
(geometric mean; 11 of 18 took longer), .70 for 16 (7 of 18, at worst 1.7) and .58 for 20 (2)."""


def fill_lanes(n_placements: int, n_devices: int) -> bool:
    """Return whether lanes take less time than one placement after another."""
    return n_placements >= FEWEST_IN_LANES and n_devices <= MAX_LANE_DEVICES
