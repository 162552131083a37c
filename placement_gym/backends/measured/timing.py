"""Timing several arms against each other: interleaved blocks, medians, noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from time import perf_counter

import numpy as np
from scipy.special import stdtrit

from placement_gym.base.arrays import FloatArray

BLOCK = 2
UNSTEADY = 1.15
MOVED = 1.05

Arm = Callable[[], object]
Samples = FloatArray


def time_interleaved(arms: Sequence[Arm], repeats: int) -> Samples:
    """Time every arm ``repeats`` times, block by block, so that slow drift meets all alike.

    Each round runs one block of every arm, in alternating order, an even number of times; the
    first run of a block, which finds the caches and threads of another arm, is not counted. Short
    blocks meet the same noise: on a shared machine blocks of two spread a third less than blocks
    of five.

    Args:
        arms: What to run.
        repeats: Counted runs of each arm, rounded up to whole blocks; at least 2.

    Returns:
        (n_arms, n_blocks, runs) milliseconds.
    """
    n_blocks = 2 * ceil(repeats / (2 * BLOCK))
    runs = ceil(repeats / n_blocks)
    samples = np.empty((len(arms), n_blocks, runs))
    for block in range(n_blocks):
        order = range(len(arms)) if block % 2 == 0 else reversed(range(len(arms)))
        for arm in order:
            arms[arm]()
            samples[arm, block] = [time_once_ms(arms[arm]) for _ in range(runs)]
    return samples


def time_once_ms(arm: Arm) -> float:
    started = perf_counter()
    arm()
    return (perf_counter() - started) * 1e3


def noise(reference: Samples, candidate: Samples) -> float:
    """Half-width of the uncertainty of a speed-up, as a fraction.

    The 95 % interval of Student's t for the ratio of medians. One observation is a pair of blocks,
    which share the machine's drift, or one compilation, whichever gives more.

    Args:
        reference: (n_blocks, runs) or (n_compilations, n_blocks, runs) ms.
        candidate: The same of the other arm.
    """
    ratios = np.median(reference, axis=-1) / np.median(candidate, axis=-1)
    observations = [ratios.ravel()]
    if ratios.ndim > 1:
        observations.append(np.median(ratios, axis=-1))
    return float(max(map(half_width, observations)) / ratios.mean())


def half_width(observations: Samples) -> float:
    """Half of the 95 % confidence interval of the mean."""
    quantile = stdtrit(len(observations) - 1, 0.975)
    return float(quantile * observations.std(ddof=1) / np.sqrt(len(observations)))


def is_unsteady(reference: Samples, candidate: Samples) -> bool:
    """Return whether to repeat the run: a long tail, or a reference that moved halfway."""
    half = reference.shape[0] // 2
    before, after = np.median(reference[:half]), np.median(reference[half:])
    tail = np.percentile(candidate, 90) / np.median(candidate)
    return bool(tail > UNSTEADY or max(before, after) / min(before, after) > MOVED)
