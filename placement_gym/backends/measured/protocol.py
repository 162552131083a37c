"""How often things run when a placement is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """How often things run.

    Attributes:
        warmup: Inferences before the first counted one.
        repeats: Counted inferences of candidate and reference, each.
        attempts: Times an unsteady run is repeated at most, the first included; the attempt
            with the least noise counts.
        final_repeats: As ``repeats``, a compilation, when finalists are measured.
        final_compiles: Compilations of each finalist.
    """

    warmup: int = 5
    repeats: int = 10
    attempts: int = 2
    final_repeats: int = 16
    final_compiles: int = 4


QUICK = Protocol(warmup=2, repeats=4, attempts=1)
"""For many measurements that a fit averages."""
