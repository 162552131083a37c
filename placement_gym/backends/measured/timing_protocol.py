"""How often things run when a placement is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimingProtocol:
    """How often things run.

    Attributes:
        warmup: Inferences before the first counted one.
        repeats: Counted inferences of candidate and reference, each.
        attempts: Times a run is repeated at most, the first included, as long as it is unsteady
            or ``noise`` is not reached. Steady attempts count together; if there is none, the one
            with the least noise does.
        noise: Half-width of the uncertainty of a speed-up, as a fraction, that is good enough.
        final_repeats: As ``repeats``, a compilation, when finalists are measured.
        final_compiles: Compilations of each finalist.
        splits: Splits that a profile is fitted to, at least.
        counted: Inferences whose counters a profile takes.
    """

    warmup: int = 5
    repeats: int = 10
    attempts: int = 2
    noise: float = float("inf")
    final_repeats: int = 16
    final_compiles: int = 4
    splits: int = 24
    counted: int = 30


FITTED = TimingProtocol(repeats=16)
"""For measurements that a fit averages."""

QUICK = TimingProtocol(
    warmup=1, repeats=2, attempts=1, final_repeats=4, final_compiles=3, splits=0, counted=8
)
"""For a plan within a minute: rough costs, which a measurement checks."""

RANKED = TimingProtocol(repeats=16, attempts=4, noise=0.025)
"""For measurements that are compared one by one."""
