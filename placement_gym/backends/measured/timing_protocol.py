"""The timing protocol: what is measured of a placement, and how often things run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TimingProtocol:
    """The objective, and numbers of inferences, repetitions and compilations.

    With objective ``"throughput"`` what is repeated is a window of requests in flight, instead of
    an inference.

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
        objective: ``"latency"`` of one request at a time, or ``"throughput"`` of several: the time
            between two results.
        requests: Requests in flight of a placement on several devices; None is one more than it
            has stages. A single device has the number that suits it best.
        window: Requests whose completion is timed at a stretch.
    """

    warmup: int = 5
    repeats: int = 10
    attempts: int = 2
    noise: float = float("inf")
    final_repeats: int = 12
    final_compiles: int = 4
    fit_placements: int = 24
    counter_inferences: int = 30
    objective: str = "latency"
    requests: int | None = None
    window: int = 8

    @property
    def in_flight(self) -> bool:
        """True if the objective is throughput."""
        return self.objective == "throughput"


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
