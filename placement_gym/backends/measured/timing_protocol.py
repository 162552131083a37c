"""How often things run when a placement is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimingProtocol:
    """Numbers of inferences, repetitions and compilations.

    Attributes:
        warmup: Inferences before the first counted one.
        repeats: Counted inferences of candidate and reference, each.
        attempts: Maximum number of runs; a run is repeated while it is unsteady or ``noise`` is
            not reached. Steady runs count together; if there is none, the one with the least
            noise counts.
        noise: Half-width of the uncertainty of a speed-up, as a fraction, that is good enough.
        final_repeats: As ``repeats``, for each compilation of a finalist.
        final_compiles: Compilations of each finalist.
        fit_placements: Minimum number of placements that a profile is fitted to.
        counter_inferences: Inferences on each device whose counters a profile reads.
    """

    warmup: int = 5
    repeats: int = 10
    attempts: int = 2
    noise: float = float("inf")
    final_repeats: int = 12
    final_compiles: int = 4
    fit_placements: int = 24
    counter_inferences: int = 30


FOR_FITTING = TimingProtocol(repeats=16)
"""For measurements that a fit averages."""

QUICK = TimingProtocol(
    warmup=1,
    repeats=2,
    attempts=1,
    final_repeats=4,
    final_compiles=3,
    fit_placements=0,
    counter_inferences=8,
)
"""For a plan within a minute: rough costs, which a measurement checks."""

FOR_RANKING = TimingProtocol(repeats=16, attempts=4, noise=0.025)
"""For measurements that are compared one by one."""
