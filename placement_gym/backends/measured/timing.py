"""A race: arms are timed in turns for as long as the answer needs, and no longer.

How long depends on what was seen, and an interval that is read again after every round misses more
often than one that is read once. Intervals here allow for that by a calibrated threshold: they are
those of Student's t for the mean of log ratios at a level of 99 instead of 95 %, with a spread that
is pooled with the usual one of an idle machine (``TYPICAL``), as if that were four observations
more. In simulations with heavy tails and drift (``tests/backends/measured/test_race.py``) at least
95 % of intervals cover the ratio wherever a race stops. Confidence sequences, which promise this
for every distribution, say nothing before tens of rounds, where these end after three or four.
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
from placement_gym.base.arrays import FloatArray
from placement_gym.base.ratios import is_above_one, is_below_one

FEWEST = 2
"""Rounds before an answer."""
COMPILATIONS = 3
"""Compilations before a verdict."""
PATIENCE = 2
"""Times as many rounds as wanted are taken while other programs disturb them."""
SAMPLE_MS = 2.0
"""A sample is the median of as many runs as take about this long: a clock disturbs shorter ones."""
FALLING = 0.95
"""A run below this share of the one before it shows that the arm is not warm yet."""
TYPICAL, BETWEEN = 0.025, 0.02
"""Usual spread of the log ratio of a pair, and between medians of compilations."""
OF_EFFECT = 1 / 3
"""Noise of a clear speed-up that is small enough, as a share of what it gains."""
WEIGHT = 4
"""Observations that the usual spread counts for."""
QUANTILE = 0.995
"""Of Student's t; see above."""
UNSEEN = 1.1
"""Factor by which what others take of caches and memory, which no counter shows, may move a
speed-up that other programs disturb."""

Arm = Callable[[], float]
"""Takes one sample and returns milliseconds."""


def time_once_ms(run: Callable[[], object]) -> float:
    started = perf_counter()
    run()
    return (perf_counter() - started) * 1e3


def warm_up(run: Callable[[], object], most: int) -> Arm:
    """Run until times stop falling, at most some times; returns what takes a sample."""
    last_ms, ms = float("inf"), float("inf")
    for _ in range(most):
        last_ms, ms = ms, time_once_ms(run)
        if ms > FALLING * last_ms:
            break
    runs = max(ceil(SAMPLE_MS / max(ms, SAMPLE_MS / 100)), 1)
    return lambda: float(np.median([time_once_ms(run) for _ in range(runs)]))


class Race:
    """Samples of arms that are timed in turns, over one compilation or several.

    Args:
        n_arms: Arms, of which the first is what others are compared with.

    Attributes:
        live: Arms that are still timed.
        compilations: For each, (n_rounds, n_arms) ms, NaN for arms that are out.
        shares: For each, (n_rounds, n_arms) share of a sample's time that others took.
        delays: For each, (n_rounds, n_arms) share of a sample's time that they can have added.
    """

    def __init__(self, n_arms: int) -> None:
        self.live = list(range(n_arms))
        self.n_arms = n_arms
        self.compilations: list[FloatArray] = []
        self.shares: list[FloatArray] = []
        self.delays: list[FloatArray] = []

    def run(
        self, arms: Sequence[Arm], most: int, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Time one compilation of all live arms.

        A round takes a sample of each, always in the same order, so that each finds the caches of
        another one; the next compilation in the other order, because the first of a round is up to
        1 % slower. Rounds that other programs disturb are taken again, but no more than
        ``PATIENCE`` times ``most`` altogether.

        Args:
            arms: The live arms, in their order.
            most: Rounds that are wanted.
            is_enough: Ends them earlier, after at least ``FEWEST``.
        """
        seen = [np.empty((0, self.n_arms)) for _ in range(3)]
        for all_of, one in zip((self.compilations, self.shares, self.delays), seen, strict=True):
            all_of.append(one)
        turns = list(zip(self.live, arms, strict=True))[:: 1 if len(self.shares) % 2 else -1]
        for _ in range(PATIENCE * most):
            ms, share, delay = np.full((3, self.n_arms), np.nan)
            for arm, sample_ms in turns:
                before = read_usage()
                ms[arm] = sample_ms()
                after = read_usage()
                share[arm], delay[arm] = find_share(before, after), find_delay(before, after)
            self.compilations[-1] = np.vstack([self.compilations[-1], ms])
            self.shares[-1] = np.vstack([self.shares[-1], share])
            self.delays[-1] = np.vstack([self.delays[-1], delay])
            calm = np.count_nonzero(np.nanmax(self.shares[-1], axis=1) < DISTURBED)
            if calm >= most or (calm >= FEWEST and is_enough()):
                return

    def counted(self, arm: int, other: int = 0) -> list[FloatArray]:
        """For each compilation that both ran in, (n, 2) ms of two arms, pair by pair.

        Those that others disturbed count only where too few are left without them.
        """
        return self.pick(self.compilations, arm, other)

    def pick(self, of_rounds: list[FloatArray], arm: int, other: int) -> list[FloatArray]:
        """The columns of two arms in the rounds that count, for each compilation with any."""
        pairs = [one[:, [arm, other]] for one in of_rounds]
        shares = [one[:, [arm, other]].max(axis=1) for one in self.shares]
        most = np.inf if self.taken_share(arm, other) else DISTURBED
        counted = [np.isfinite(share) & (share < most) for share in shares]
        return [one[kept] for one, kept in zip(pairs, counted, strict=True) if kept.any()]

    def taken_share(self, arm: int, other: int = 0) -> float:
        """The usual share of the time that others took from two arms; 0 if enough rounds are calm.

        A verdict on an arm that others disturbed needs ``is_clear_anyway``.
        """
        shares = np.concatenate(self.shares)[:, [arm, other]].max(axis=1)
        shares = shares[np.isfinite(shares)]
        enough = np.count_nonzero(shares < DISTURBED) >= FEWEST
        return 0.0 if enough else float(np.median(shares))

    def samples(self, arm: int) -> FloatArray:
        """(n, 2) ms of an arm and the first, pair by pair."""
        return np.concatenate(self.counted(arm))

    def speedup(self, arm: int, over: int = 0) -> float:
        """The median ratio of pairs, which share the machine's drift; the mean of compilations."""
        return float(np.exp(np.mean([np.median(pairs) for pairs in self.log_ratios(arm, over)])))

    def log_ratios(self, arm: int, over: int = 0) -> list[FloatArray]:
        """For each compilation, the log of each pair's ratio."""
        return [np.log(ms[:, 1] / ms[:, 0]) for ms in self.counted(arm, over)]

    def noise(self, arm: int, over: int = 0) -> float:
        """Half-width of the uncertainty of a speed-up, as a fraction.

        One observation is a pair of samples, which share the machine's drift, or a compilation,
        whichever gives more.
        """
        if arm == over:
            return 0.0
        pairs = self.log_ratios(arm, over)
        width = half_width(np.concatenate(pairs), TYPICAL)
        if len(pairs) > 1:
            width = max(width, half_width(np.array([np.median(one) for one in pairs]), BETWEEN))
        return float(np.expm1(width))

    def is_slower(self, arm: int, than: float, over: int = 0) -> bool:
        """Return whether an arm's speed-up over another one is clearly below some value."""
        return self.speedup(arm, over) * (1.0 + self.noise(arm, over)) < than

    def drop_slower(self, noise: float) -> None:
        """Drop arms that are clearly slower than the fastest, and known to some noise.

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
        """Return whether all that is left is known as well as is needed.

        Several arms only have to be known to ``noise``: the one that is chosen is measured again
        alone. One arm is decided if it is clearly faster or slower than the first, and known to
        ``noise``; one that equals the first has to be known to ``fine``. An arm that is clear is
        also known if its noise is below ``OF_EFFECT`` of what it gains or loses. Nothing more is
        tried where other programs leave no calm round in several compilations.
        """
        if len(self.compilations) < COMPILATIONS:
            return False
        rivals = [arm for arm in self.live if arm]
        if any(map(self.taken_share, rivals)):
            return True
        equal = len(rivals) == 1 and not self.is_clear(rivals[0])
        enough = fine if equal else noise
        return all(self.noise(arm) <= max(enough, self.effect_noise(arm)) for arm in rivals)

    def effect_noise(self, arm: int) -> float:
        """The noise that is small beside what an arm gains or loses; 0 if neither is clear."""
        return OF_EFFECT * abs(self.speedup(arm) - 1.0) if self.is_clear(arm) else 0.0

    def is_clear(self, arm: int) -> bool:
        """Return whether an arm is faster or slower than the first beyond its noise."""
        ratio, noise = self.speedup(arm), self.noise(arm)
        return is_above_one(ratio, noise) or is_below_one(ratio, noise)

    def is_clear_anyway(self, arm: int) -> bool:
        """Return whether an arm is faster or slower than the first whatever others took from both.

        It is faster if it is beyond its noise and ``UNSEEN`` even had everything that they took
        from the first delayed that, and nothing of what they took from the arm; slower likewise.
        """
        noise, ratios = self.noise(arm), self.log_ratios(arm)
        delays = self.pick(self.delays, arm, 0)
        # times that nothing would be left of give no bound: the logarithm of almost none
        undelayed = [np.log(np.maximum(1.0 - delay, 1e-9)) for delay in delays]
        least, most = (
            np.exp(np.mean([np.median(a + b) for a, b in zip(ratios, bound, strict=True)]))
            for bound in ([one[:, 1] for one in undelayed], [-one[:, 0] for one in undelayed])
        )
        return is_above_one(least / UNSEEN, noise) or is_below_one(most * UNSEEN, noise)


def half_width(observations: FloatArray, typical: float) -> float:
    """Half of the interval of a mean, by the spread of observations and a typical one."""
    freedom = WEIGHT + len(observations) - 1
    squares = WEIGHT * typical**2 + len(observations) * observations.var()
    return float(stdtrit(freedom, QUANTILE) * np.sqrt(squares / freedom / len(observations)))
