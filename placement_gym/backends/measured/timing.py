"""A race: arms are timed in turns until the samples decide.

An interval that is checked after every round misses the true value more often than one that is
checked once. So intervals of Student's t for the mean of log ratios have a level of 99 instead of
95 %, and their spread is pooled with the usual one of an idle machine (``PAIR_SPREAD``), weighted
as four observations. In simulations with heavy tails and drift
(``tests/backends/measured/test_race.py``) at least 95 % of intervals cover the ratio, whenever a
race stops. Confidence sequences hold for every distribution, but need tens of rounds, not three.
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
"""Largest number of rounds, as a multiple of those requested, while other programs disturb them.
Hand-tuned."""
SAMPLE_MS = 2.0
"""Time of a sample, the median of several runs: interrupts disturb shorter ones. Hand-tuned."""
FALLING_RATIO = 0.95
"""An arm is warm if a run takes at least this share of the run before it. Hand-tuned."""
PAIR_SPREAD, COMPILATION_SPREAD = 0.025, 0.02
"""Standard deviation of the log ratio of a pair on an idle machine, and of the medians of several
compilations."""
MAX_NOISE_OF_GAIN = 1 / 3
"""Noise that decides a clear speed-up, as a share of its gain. Hand-tuned."""
PRIOR_OBSERVATIONS = 4
"""Weight of the usual spread, in observations."""
T_QUANTILE = 0.995
"""Quantile of Student's t, two-sided 99 %."""
CACHE_INTERFERENCE = 1.1
"""Largest factor on a speed-up by other programs' use of caches and memory. Hand-tuned."""
MS, SHARE, DELAY = range(3)
"""Rows of a compilation's samples."""
Arm = Callable[[], float]
"""Takes one sample and returns milliseconds."""


def time_once_ms(run: Callable[[], object]) -> float:
    start_s = perf_counter()
    run()
    return (perf_counter() - start_s) * 1e3


def warm_up(run: Callable[[], object], max_runs: int) -> Arm:
    """Run until times stop falling, at most ``max_runs`` times; return a function that samples."""
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
        n_arms: Number of arms; the first is the reference of the others.

    Attributes:
        live: Arms that are still timed.
        compilations: (3, n_rounds, n_arms) ms, ``find_share`` and ``find_delay`` of the samples of
            each compilation; NaN for arms that are out.
    """

    def __init__(self, n_arms: int) -> None:
        self.live = list(range(n_arms))
        self.n_arms = n_arms
        self.compilations: list[FloatArray] = []

    def run(
        self, arms: Sequence[Arm], n_rounds: int, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Time one compilation of all live arms.

        A round takes a sample of each arm in the same order, so that each follows the same arm in
        the caches. The next compilation reverses the order: the first arm is up to 1 % slower.
        Rounds that other programs disturb are repeated within ``MAX_DISTURBED_FACTOR``. The run may
        stop before ``n_rounds`` calm ones, after ``MIN_ROUNDS``, if ``is_enough``.
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
        """(n, 2) samples of pairs of two arms, for each compilation in which both ran.

        Disturbed pairs count only if too few calm ones remain.
        """
        limit = np.inf if self.interference(arm, other) else DISTURBED
        pairs = [rounds[:, :, [arm, other]] for rounds in self.compilations]
        # The share is NaN, which is not below any limit, if an arm is out.
        valid = [pair[SHARE].max(axis=1) < limit for pair in pairs]
        return [pair[row, mask] for pair, mask in zip(pairs, valid, strict=True) if mask.any()]

    def interference(self, arm: int, other: int = 0) -> float:
        """The median share of time that other programs took; 0 if enough rounds are calm."""
        shares = np.concatenate([rounds[SHARE] for rounds in self.compilations])
        shares = shares[:, [arm, other]].max(axis=1)
        shares = shares[np.isfinite(shares)]
        is_calm = np.count_nonzero(shares < DISTURBED) >= MIN_ROUNDS
        return 0.0 if is_calm else float(np.median(shares))

    def samples(self, arm: int) -> FloatArray:
        """(n, 2) ms of pairs of an arm and the first."""
        return np.concatenate(self.pick(MS, arm))

    def speedup(self, arm: int, over: int = 0) -> float:
        """The geometric mean over compilations of the median ratio of pairs."""
        return float(np.exp(np.mean([np.median(pairs) for pairs in self.log_ratios(arm, over)])))

    def log_ratios(self, arm: int, over: int = 0) -> list[FloatArray]:
        """(n,) log of the ratio of each pair, for each compilation."""
        return [np.log(ms[:, 1] / ms[:, 0]) for ms in self.pick(MS, arm, over)]

    def noise(self, arm: int, over: int = 0) -> float:
        """Half-width of a speed-up's uncertainty, by pairs or by compilations, as a fraction."""
        if arm == over:
            return 0.0
        pairs = self.log_ratios(arm, over)
        width = half_width(np.concatenate(pairs), PAIR_SPREAD)
        if len(pairs) > 1:
            medians = np.array([np.median(pair) for pair in pairs])
            width = max(width, half_width(medians, COMPILATION_SPREAD))
        return float(np.expm1(width))

    def is_slower(self, arm: int, than: float, over: int = 0) -> bool:
        """Return whether an arm's speed-up over another is clearly below ``than``."""
        return self.speedup(arm, over) * (1.0 + self.noise(arm, over)) < than

    def drop_slower(self, noise: float) -> None:
        """Drop arms, of a noise of at most ``noise``, that are clearly slower; the first stays."""
        fastest = max(self.live, key=self.speedup)
        self.live = [
            arm
            for arm in self.live
            if arm in (0, fastest)
            or not self.is_slower(arm, 1.0, fastest)
            or self.noise(arm) > noise
        ]

    def is_decided(self, noise: float, fine: float) -> bool:
        """Return whether the noise of live arms allows a verdict, or no calm rounds are left."""
        if len(self.compilations) < MIN_COMPILATIONS:
            return False
        rivals = [arm for arm in self.live if arm]
        if any(map(self.interference, rivals)):
            return True
        alone = len(rivals) == 1
        return all(self.noise(arm) <= self.noise_goal(arm, alone, noise, fine) for arm in rivals)

    def noise_goal(self, arm: int, alone: bool, noise: float, fine: float) -> float:
        """The noise of an arm, one of several or ``alone``, that allows a verdict.

        If it is alone and may equal the first, that is ``fine``; one of several needs ``noise``, as
        the fastest is measured again alone. A clear one needs the larger of ``noise`` and
        ``MAX_NOISE_OF_GAIN`` of its gain or loss, but a faster one that is alone needs ``noise``,
        because its speed-up is the answer.
        """
        if not self.is_clear(arm):
            return fine if alone else noise
        gain = self.speedup(arm) - 1.0
        return noise if alone and gain > 0.0 else max(noise, MAX_NOISE_OF_GAIN * abs(gain))

    def is_clear(self, arm: int) -> bool:
        ratio, noise = self.speedup(arm), self.noise(arm)
        return is_above_one(ratio, noise) or is_below_one(ratio, noise)

    def is_clear_despite_interference(self, arm: int) -> bool:
        """Return whether an arm is faster or slower than the first despite interference.

        It is faster if its gain exceeds noise and ``CACHE_INTERFERENCE`` even if other programs
        delayed the first arm by all the time that they took, and this arm not at all.
        """
        noise, ratios = self.noise(arm), self.log_ratios(arm)
        delays = self.pick(DELAY, arm)
        # 1e-9 keeps the logarithm finite for a sample that was delayed all the time.
        undelayed = [np.log(np.maximum(1.0 - delay, 1e-9)) for delay in delays]
        slowest, fastest = (
            np.exp(np.mean([np.median(a + b) for a, b in zip(ratios, bound, strict=True)]))
            for bound in ([logs[:, 1] for logs in undelayed], [-logs[:, 0] for logs in undelayed])
        )
        return is_above_one(slowest / CACHE_INTERFERENCE, noise) or is_below_one(
            fastest * CACHE_INTERFERENCE, noise
        )


def half_width(observations: FloatArray, typical: float) -> float:
    """Half-width of the interval of a mean, by the spread of observations and a typical one."""
    freedom = PRIOR_OBSERVATIONS + len(observations) - 1
    squares = PRIOR_OBSERVATIONS * typical**2 + len(observations) * observations.var()
    return float(stdtrit(freedom, T_QUANTILE) * np.sqrt(squares / freedom / len(observations)))
