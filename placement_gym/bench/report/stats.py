"""Statistics over seeds and problems (Agarwal et al. 2021, "rliable").

Scores are (n_seeds, n_problems), 0 where a run failed and nan where there was none. A statistic is
a number, or for (k, n_seeds, n_problems) resampled scores (k,) numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray

RESAMPLES, CURVE_RESAMPLES = 2000, 400
Curve = tuple[FloatArray, FloatArray, FloatArray]
"""(n_points,) values, and both ends of their 95 % intervals."""


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: FloatArray) -> FloatArray:
    """Mean of the middle half of the scores of runs that did not fail; nan without any."""
    runs = scores.reshape(*scores.shape[:-2], -1)
    ordered = np.sort(np.where(runs > 0, runs, np.nan), axis=-1)
    n_known = np.isfinite(ordered).sum(axis=-1, keepdims=True)
    cut, place = n_known // 4, np.arange(ordered.shape[-1])
    return mean_or_nan(ordered, (place >= cut) & (place < n_known - cut))


def mean_of_medians(scores: FloatArray) -> FloatArray:
    """Mean over problems of the median score, 0 for failed runs; nan without any."""
    played: BoolArray = np.asarray((~np.isnan(scores)).any(axis=-2))
    medians = np.nanmedian(np.where(played[..., None, :], scores, 0.0), axis=-2)
    return mean_or_nan(medians, played)


def probability_of_improvement(scores: FloatArray, rival_scores: FloatArray) -> FloatArray:
    """Share of pairs of runs on a problem that the first wins; ties count half.

    The mean over problems on which both ran, or nan.
    """
    first, theirs = scores[..., :, None, :], rival_scores[..., None, :, :]
    met = ~np.isnan(first) & ~np.isnan(theirs)
    n_met = met.sum(axis=(-3, -2))
    won = ((first > theirs) + 0.5 * (first == theirs)).sum(axis=(-3, -2), where=met)
    return mean_or_nan(won / np.maximum(n_met, 1), n_met > 0)


def mean_or_nan(values: FloatArray, mask: BoolArray) -> FloatArray:
    """Mean over the last axis of the values in a mask; nan without any."""
    total, n = values.sum(axis=-1, where=mask), mask.sum(axis=-1)
    mean: FloatArray = np.where(n > 0, total / np.maximum(n, 1), np.nan)
    return mean


def performance_profile(scores: FloatArray, thresholds: FloatArray) -> Curve:
    """Share of runs, failed ones included, with a score of at least each threshold."""
    played = ~np.isnan(scores)
    is_reached = (scores[played, None] >= thresholds).astype(np.float64)
    problem = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)[played]
    return bootstrap_curve(is_reached, problem)


def bootstrap(statistic: Callable[..., FloatArray], *scores: FloatArray) -> Estimate:
    """A statistic with its bootstrap interval; runs are resampled within each problem."""
    rng = np.random.default_rng(0)
    value = float(statistic(*scores))
    if np.isnan(value):
        return Estimate(value, value, value)
    samples = statistic(*(resample(score, rng) for score in scores))
    low, high = np.nanpercentile(samples, [2.5, 97.5])
    return Estimate(value, float(low), float(high))


def resample(scores: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(RESAMPLES, n_seeds, n_problems): runs of each problem, drawn with replacement."""
    indices = rng.integers(len(scores), size=(RESAMPLES, *scores.shape))
    return np.take_along_axis(scores[None], indices, axis=1)


def bootstrap_curve(curves: FloatArray, group: IntArray) -> Curve:
    """Mean of (n_runs, n_points) curves with its interval; runs are resampled within groups."""
    rng = np.random.default_rng(0)
    weights = np.zeros((CURVE_RESAMPLES, len(curves)))
    for problem in np.unique(group):
        members = np.flatnonzero(group == problem)
        indices = rng.integers(len(members), size=(CURVE_RESAMPLES, len(members)))
        np.add.at(weights, (np.arange(CURVE_RESAMPLES)[:, None], members[indices]), 1.0)
    low, high = np.percentile(weights @ curves / len(curves), [2.5, 97.5], axis=0)
    return curves.mean(axis=0), low, high
