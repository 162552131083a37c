"""The timing protocol: the objective of a measurement and its precision."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from placement_gym.workloads import Objective, find_objective

MIN_COMPILATIONS = 3
"""Compilations before a verdict: one model compiled twice differs by ``COMPILATION_SPREAD``."""


@dataclass(frozen=True)
class TimingProtocol:
    """The objective of measurements, their precision and their limits.

    With objective ``"throughput"`` a repetition is a window of requests in flight.

    Attributes:
        warmup: Largest number of inferences between the first of all, whose outputs are compared,
            and the first counted one; they end when times stop falling.
        repeats: Largest number of counted inferences of candidate and reference, each.
        noise: Half-width of the uncertainty of a speed-up, as a fraction, that is good enough.
        racing: Stop as soon as a placement is clearly slower than the best so far.
        final_repeats: Largest number of samples in each compilation of a finalist; an objective
            may need less.
        final_compiles: Largest number of compilations of a finalist.
        final_noise: As ``noise``, of finalists that are about as fast as their rival.
        final_s: Seconds after which finalists are not compiled again, once a verdict is possible:
            thousands of operators take seconds to compile; see ``most_rounds``.
        fit_placements: Minimum number of placements that a profile is fitted to.
        counter_inferences: Inferences on each device whose counters a profile reads.
        objective: ``"latency"`` of one request at a time, or ``"throughput"`` of several: the time
            between two results.
        requests: Requests in flight of a placement on several devices; None leaves the number to
            ``ThroughputCompiler``. A single device has the number that suits it best.
        window: Requests whose completion is timed at a stretch.
    """

    warmup: int = 1
    repeats: int = 6
    noise: float = 0.05
    racing: bool = True
    final_repeats: int = 4
    final_compiles: int = 8
    final_noise: float = 0.02
    final_s: float = float("inf")
    fit_placements: int = 24
    counter_inferences: int = 30
    objective: str = "latency"
    requests: int | None = None
    window: int = 8

    @property
    def goal(self) -> Objective:
        """The objective itself."""
        return find_objective(self.objective)

    @property
    def final_rounds(self) -> int:
        """Largest number of samples in each compilation of a finalist."""
        return min(self.final_repeats, self.goal.final_repeats)

    def most_rounds(self, round_s: float) -> int:
        """Largest number of compilations of finalists if each round takes so long."""
        if not round_s > 0.0:  # nan if it is unknown
            return self.final_compiles
        in_time = max(self.final_s / round_s, MIN_COMPILATIONS)
        return ceil(min(in_time, self.final_compiles))


FOR_FITTING = TimingProtocol(repeats=16, noise=0.03, racing=False)
"""For measurements that a fit averages: many quick ones, none cut short by racing."""
QUICK = TimingProtocol(
    repeats=4, racing=False, final_s=30.0, fit_placements=0, counter_inferences=8
)
"""For a plan within a minute: rough costs, which a measurement checks."""
FOR_RANKING = TimingProtocol(repeats=32, noise=0.025, racing=False)
"""For measurements that are compared one by one, as in ``fidelity``."""
