"""The unit of time in which a linear program is accurate, whatever the scale of its costs.

HiGHS compares with absolute tolerances near 1e-6, drops coefficients below 1e-9, and rounds badly
where coefficients are many orders of magnitude above the optimum. Most problems have optima that
suit it in milliseconds.
"""

from __future__ import annotations

from math import isfinite, log2

LEAST, MOST = 1.0, 2.0**17
"""An optimum in this range of units is accurate."""
USUAL = 10
"""If the unit is not the millisecond, the optimum is about two to this power of units."""
LONGEST = 2.0**20
"""Times of more units are lowered to this number: no good placement contains them, and the program
remains a lower bound."""


def choose_unit(about_ms: float) -> float:
    """A power of two of a millisecond in which an optimum near ``about_ms`` is accurate."""
    if is_accurate(about_ms, 1.0) or not isfinite(about_ms):
        return 1.0
    return float(2.0 ** (int(log2(about_ms)) - USUAL))


def is_accurate(optimum_ms: float, unit_ms: float) -> bool:
    """Return whether a program in this unit finds this nonnegative optimum accurately."""
    return optimum_ms == 0.0 or LEAST <= optimum_ms / unit_ms < MOST
