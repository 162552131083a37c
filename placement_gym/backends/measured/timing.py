"""A race: arms are timed in turns until the samples decide.

A race stops as soon as its samples decide, and an interval that is read after every round misses
the true value more often than one that is read once. A calibrated threshold allows for that:
intervals are those of Student's t for the mean of log ratios at a level of 99 instead of 95 %, with
a spread that is pooled with the usual one of an idle machine (``PAIR_SPREAD``), as if that were
four observations more. In simulations with heavy tails and drift
(``tests/backends/measured/test_race.py``) at least 95 % of intervals cover the ratio, whenever a
race stops. Confidence sequences, which promise this for every distribution, say nothing before tens
of rounds, where these end after three or four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from time import perf_counter

import numpy as np
from scipy.special import stdtrit

from placement_gym.backends.measured.interference import (
    DISTURBED,
    find_delay,
    find_share,
    read_usage,
)
from placement_gym.backends.measured.timing_protocol import MIN_COMPILATIONS
from placement_gym.base import FloatArray, is_above_one, is_below_one

MIN_ROUNDS = 2
"""Rounds before an answer: the fewest that have a spread."""
MAX_DISTURBED_FACTOR = 2
"""Rounds at most, as a multiple of those requested, while other programs disturb them. Hand-tuned:
which doubles the time of a measurement at worst."""
SAMPLE_MS = 2.0
"""A sample is the median of as many runs as take about this long: interrupts of the system disturb
shorter ones. Hand-tuned."""
FALLING_RATIO = 0.95
"""An arm is not warm yet if a run takes less than this share of the run before it. Hand-tuned."""
PAIR_SPREAD, COMPILATION_SPREAD = 0.025, 0.02
"""Standard deviation of the log ratio of a pair on an idle machine, and of the medians of several
compilations; see above."""
MAX_NOISE_OF_GAIN = 1 / 3
"""Noise that decides a clear speed-up, as a share of its gain. Hand-tuned."""
PRIOR_OBSERVATIONS = 4
"""Observations that the usual spread counts for; see above."""
T_QUANTILE = 0.995
"""Quantile of Student's t, two-sided 99 %; see above."""
CACHE_INTERFERENCE = 1.1
"""Largest factor on a speed-up by other programs' use of caches and memory bandwidth, which no
counter shows. Hand-tuned."""

MS, SHARE, DELAY = range(3)
"""Rows of a compilation's samples."""

Arm = Callable[[], float]
"""Takes one sample and returns milliseconds."""


def time_once_ms(run: Callable[[], object]) -> float:
    start_s = perf_counter()
    run()
    return (perf_counter() - start_s) * 1e3


def warm_up(run: Callable[[], object], max_runs: int) -> Arm:
    """Run until times stop falling, at most ``max_runs`` times; returns a function that samples."""
    last_ms, ms = float("inf"), float("inf")
    for _ in range(max_runs):
        last_ms, ms = ms, time_once_ms(run)
        if ms > FALLING_RATIO * last_ms:
            break
    runs = max(ceil(SAMPLE_MS / max(ms, SAMPLE_MS / 100)), 1)
    return lambda: float(np.median([time_once_ms(run) for _ in range(runs)]))


class Race:
    """Samples of arms that are timed in turns, over one compilation or several.

    Args:
        n_arms: Arms; the first is the reference of the others.

    Attributes:
        live: Arms that are still timed.
        compilations: For each, (3, n_rounds, n_arms) ms of a sample, share of its time that other
            programs took, and largest share that they added; NaN for arms that are out.
    """

    def __init__(self, n_arms: int) -> None:
        self.live = list(range(n_arms))
        self.n_arms = n_arms
        self.compilations: list[FloatArray] = []

    def run(
        self, arms: Sequence[Arm], n_rounds: int, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Time one compilation of all live arms.

        A round takes a sample of each, always in the same order: each arm follows the same other
        one in the caches. The next compilation reverses the order, because the first arm of a round
        is up to 1 % slower. Rounds that other programs disturb are repeated, but no more than
        ``MAX_DISTURBED_FACTOR`` times ``n_rounds`` altogether.

        Args:
            arms: The live arms, in their order.
            n_rounds: Rounds that are wanted.
            is_enough: Ends the race earlier, after at least ``MIN_ROUNDS``.
        """
        rounds = np.empty((3, 0, self.n_arms))
        self.compilations.append(rounds)
        turns = list(zip(self.live, arms, strict=True))[:: 1 if len(self.compilations) % 2 else -1]
        for _ in range(MAX_DISTURBED_FACTOR * n_rounds):
            samples = np.full((3, 1, self.n_arms), np.nan)
            for arm, sample_ms in turns:
                before = read_usage()
                ms = sample_ms()
                used = read_usage().since(before)
                samples[:, 0, arm] = ms, find_share(used), find_delay(used)
            self.compilations[-1] = rounds = np.concatenate([rounds, samples], axis=1)
            n_calm = np.count_nonzero(np.nanmax(rounds[SHARE], axis=1) < DISTURBED)
            if n_calm >= n_rounds or (n_calm >= MIN_ROUNDS and is_enough()):
                return

    def pick(self, row: int, arm: int, other: int = 0) -> list[FloatArray]:
        """For each compilation that both ran in, (n, 2) samples of two arms, pair by pair.

        Disturbed pairs count only where too few calm ones remain.
        """
        limit = np.inf if self.interference(arm, other) else DISTURBED
        pairs = [rounds[:, :, [arm, other]] for rounds in self.compilations]
        # The share of a pair is NaN where one of them is out, and that is below no limit.
        valid = [pair[SHARE].max(axis=1) < limit for pair in pairs]
        return [pair[row, mask] for pair, mask in zip(pairs, valid, strict=True) if mask.any()]

    def interference(self, arm: int, other: int = 0) -> float:
        """The median share of time that other programs took; 0 if enough rounds are calm.

        If it is not 0, a verdict on the arm needs ``is_clear_despite_interference``.
        """
        shares = np.concatenate([rounds[SHARE] for rounds in self.compilations])
        shares = shares[:, [arm, other]].max(axis=1)
        shares = shares[np.isfinite(shares)]
        is_calm = np.count_nonzero(shares < DISTURBED) >= MIN_ROUNDS
        return 0.0 if is_calm else float(np.median(shares))

    def samples(self, arm: int) -> FloatArray:
        """(n, 2) ms of an arm and the first, pair by pair."""
        return np.concatenate(self.pick(MS, arm))

    def speedup(self, arm: int, over: int = 0) -> float:
        """The median ratio of pairs, which share the machine's drift; the mean of compilations."""
        return float(np.exp(np.mean([np.median(pairs) for pairs in self.log_ratios(arm, over)])))

    def log_ratios(self, arm: int, over: int = 0) -> list[FloatArray]:
        """For each compilation, the log of each pair's ratio."""
        return [np.log(ms[:, 1] / ms[:, 0]) for ms in self.pick(MS, arm, over)]

    def noise(self, arm: int, over: int = 0) -> float:
        """Half-width of the uncertainty of a speed-up, as a fraction.

        One observation is a pair of samples, which share the machine's drift, or a compilation,
        whichever gives more.
        """
        if arm == over:
            return 0.0
        pairs = self.log_ratios(arm, over)
        width = half_width(np.concatenate(pairs), PAIR_SPREAD)
        if len(pairs) > 1:
            width = max(
                width, half_width(np.array([np.median(pair) for pair in pairs]), COMPILATION_SPREAD)
            )
        return float(np.expm1(width))

    def is_slower(self, arm: int, than: float, over: int = 0) -> bool:
        """Return whether an arm's speed-up over another one is clearly below some value."""
        return self.speedup(arm, over) * (1.0 + self.noise(arm, over)) < than

    def drop_slower(self, noise: float) -> None:
        """Drop arms that are clearly slower than the fastest and whose noise is small enough.

        The first arm stays.
        """
        fastest = max(self.live, key=self.speedup)
        self.live = [
            arm
            for arm in self.live
            if arm in (0, fastest)
            or not self.is_slower(arm, 1.0, fastest)
            or self.noise(arm) > noise
        ]

    def is_decided(self, noise: float, fine: float) -> bool:
        """Return whether the noise of the remaining arms allows a verdict; see ``noise_goal``.

        The race also ends where other programs leave no calm round in several compilations.
        """
        if len(self.compilations) < MIN_COMPILATIONS:
            return False
        rivals = [arm for arm in self.live if arm]
        if any(map(self.interference, rivals)):
            return True
        alone = len(rivals) == 1
        return all(self.noise(arm) <= self.noise_goal(arm, alone, noise, fine) for arm in rivals)

    def noise_goal(self, arm: int, alone: bool, noise: float, fine: float) -> float:
        """The noise of an arm that allows a verdict, on several arms or on one ``alone``.

        One of several needs ``noise``, as the selected one is measured again alone. An arm alone
        that equals the first needs ``fine``. Of clear ones, ``MAX_NOISE_OF_GAIN`` of the gain or
        loss suffices; but not of a faster arm alone, whose speed-up is the answer.
        """
        if not self.is_clear(arm):
            return fine if alone else noise
        gain = self.speedup(arm) - 1.0
        return noise if alone and gain > 0.0 else max(noise, MAX_NOISE_OF_GAIN * abs(gain))

    def is_clear(self, arm: int) -> bool:
        """Return whether an arm is faster or slower than the first beyond its noise."""
        ratio, noise = self.speedup(arm), self.noise(arm)
        return is_above_one(ratio, noise) or is_below_one(ratio, noise)

    def is_clear_despite_interference(self, arm: int) -> bool:
        """Return whether an arm is faster or slower than the first despite interference.

        It is faster if its gain exceeds its noise and ``CACHE_INTERFERENCE`` even under the worst
        assumption: other programs delayed the first arm by all the time that they took, and this
        arm not at all. The same for slower.
        """
        noise, ratios = self.noise(arm), self.log_ratios(arm)
        delays = self.pick(DELAY, arm)
        # A sample that was delayed all the time gives no bound; 1e-9 keeps its logarithm finite.
        undelayed = [np.log(np.maximum(1.0 - delay, 1e-9)) for delay in delays]
        slowest, fastest = (
            np.exp(np.mean([np.median(a + b) for a, b in zip(ratios, bound, strict=True)]))
            for bound in ([logs[:, 1] for logs in undelayed], [-logs[:, 0] for logs in undelayed])
        )
        return is_above_one(slowest / CACHE_INTERFERENCE, noise) or is_below_one(
            fastest * CACHE_INTERFERENCE, noise
        )


def half_width(observations: FloatArray, typical: float) -> float:
    """Half of the interval of a mean, by the spread of observations and a typical one."""
    freedom = PRIOR_OBSERVATIONS + len(observations) - 1
    squares = PRIOR_OBSERVATIONS * typical**2 + len(observations) * observations.var()
    return float(stdtrit(freedom, T_QUANTILE) * np.sqrt(squares / freedom / len(observations)))
