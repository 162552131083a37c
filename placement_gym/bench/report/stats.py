"""Statistics over seeds and problems (Agarwal et al. 2021, "rliable").

Scores are (n_seeds, n_problems) arrays, as rliable's: 0 where a run failed, nan where there was
none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import trim_mean

from placement_gym.arrays import FloatArray

RESAMPLES = 2000


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: FloatArray) -> float:
    """The mean of the middle half of all scores but those of failed runs; nan without any."""
    known = scores[scores > 0]
    return float(trim_mean(known, 0.25)) if len(known) else np.nan


def mean_of_medians(scores: FloatArray) -> float:
    """The mean over problems of each problem's median run, failed ones counting 0; nan without any.

    Unlike the interquartile mean of all runs it leaves out no problem.
    """
    medians = [np.median(column[~np.isnan(column)]) for column in scores.T if not all_nan(column)]
    return float(np.mean(medians)) if medians else np.nan


def all_nan(values: FloatArray) -> bool:
    return bool(np.isnan(values).all())


def probability_of_improvement(scores: FloatArray, others: FloatArray) -> float:
    """How often a run of the first beats one of the second on a problem, ties counting half.

    A failed run loses against any other. The mean over the problems on which both have runs; nan
    without any.
    """
    chances = []
    for mine, theirs in zip(scores.T, others.T, strict=True):
        mine, theirs = mine[~np.isnan(mine), None], theirs[None, ~np.isnan(theirs)]
        if mine.size and theirs.size:
            chances.append(((mine > theirs) + 0.5 * (mine == theirs)).mean())
    return float(np.mean(chances)) if chances else np.nan


def performance_profile(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """(len(thresholds),) share of the runs, failed ones too, with at least that score."""
    reached: FloatArray = (scores[~np.isnan(scores), None] >= thresholds).mean(axis=0)
    return reached


def bootstrap(statistic: Callable[..., float], *scores: FloatArray) -> Estimate:
    """Compute a statistic of scores with its stratified bootstrap interval.

    Runs are resampled within each problem, independently for each agent.

    Args:
        statistic: A function of one array for each of ``scores``.
        scores: (n_seeds, n_problems) of each agent.
    """
    rng = np.random.default_rng(0)
    value = statistic(*scores)
    if np.isnan(value):
        return Estimate(value, value, value)
    drawn = [statistic(*(resample(score, rng) for score in scores)) for _ in range(RESAMPLES)]
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return Estimate(value, float(low), float(high))


def resample(scores: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw the runs of each problem again, with replacement; the shape stays."""
    return np.take_along_axis(scores, rng.integers(len(scores), size=scores.shape), axis=0)
