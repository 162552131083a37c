"""The timing protocol: the objective of a measurement and its precision."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from placement_gym.workloads import Objective, find_objective

MIN_COMPILATIONS = 3
"""Compilations before a verdict, as compilations of one model differ by ``COMPILATION_SPREAD``."""


@dataclass(frozen=True)
class TimingProtocol:
    """Objective, precision and limits of measurements.

    Attributes:
        warmup: Largest number of inferences between the first, whose outputs are compared, and the
            first counted one; warm-up ends when times stop falling.
        repeats: Largest number of counted inferences, or windows of requests in flight, of
            candidate and reference each.
        noise: Half-width of the uncertainty of a speed-up, as a fraction, that suffices.
        racing: Stop as soon as a placement is clearly slower than the best so far.
        final_repeats: Largest number of samples in each compilation of a finalist; an objective
            may need fewer.
        final_compiles: Largest number of compilations of a finalist.
        final_noise: ``noise`` of finalists that are about as fast as their rival.
        final_s: Seconds after which finalists are not compiled again if a verdict is possible.
        fit_placements: Minimum number of placements that a profile is fitted to.
        counter_inferences: Inferences on each device whose counters a profile reads.
        objective: ``"latency"`` of one request at a time, or ``"throughput"`` of several: the time
            between two results.
        requests: Requests in flight of a placement on several devices; None leaves the number to
            ``ThroughputCompiler``. A single device has its best number.
        window: Number of results in a sample of throughput.
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
        return find_objective(self.objective)

    @property
    def final_rounds(self) -> int:
        """Largest number of samples in each compilation of a finalist."""
        return min(self.final_repeats, self.goal.final_repeats)

    def most_rounds(self, round_s: float) -> int:
        """Largest number of compilations of finalists if a round takes ``round_s``."""
        if not round_s > 0.0:  # nan if unknown
            return self.final_compiles
        in_time = max(self.final_s / round_s, MIN_COMPILATIONS)
        return ceil(min(in_time, self.final_compiles))


FOR_FITTING = TimingProtocol(repeats=16, noise=0.03, racing=False)
"""For a profile: many quick measurements without racing, as a fit averages them."""
QUICK = TimingProtocol(
    repeats=4, racing=False, final_s=30.0, fit_placements=0, counter_inferences=8
)
"""For a quick profile, which suffices a plan, whose finalists are measured."""
FOR_RANKING = TimingProtocol(repeats=32, noise=0.025, racing=False)
"""For measurements that are compared with each other, as in ``fidelity``."""
