# White-box tests of bench.report
"""Statistics of studies, against numbers that are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from placement_gym.base import FloatArray
from placement_gym.bench.report.stats import (
    bootstrap,
    interquartile_mean,
    mean_of_medians,
    performance_profile,
    probability_of_improvement,
)


def test_interquartile_mean_leaves_out_the_outer_quarters() -> None:
    scores = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 700.0]])
    assert interquartile_mean(scores) == pytest.approx(np.mean([3, 4, 5, 6]))


def test_failed_and_missing_runs_are_not_averaged() -> None:
    scores = np.array([[0.0, 1.0], [3.0, np.nan]])
    assert interquartile_mean(scores) == pytest.approx(2.0)
    assert np.isnan(interquartile_mean(np.full((2, 2), np.nan)))


def test_the_mean_of_medians_counts_every_problem_alike() -> None:
    """One bad problem of four is a quarter of the mean, and nothing of the interquartile mean."""
    scores = np.array([[0.9, 0.9, 0.9, 0.1], [0.9, 0.9, 0.9, 0.1], [0.9, 0.9, 0.9, 0.9]])
    assert mean_of_medians(scores) == pytest.approx((3 * 0.9 + 0.1) / 4)
    assert interquartile_mean(scores) == pytest.approx(0.9)


def test_failed_runs_count_0_in_medians_and_missing_ones_do_not() -> None:
    scores = np.array([[0.0, 0.5, np.nan], [0.0, np.nan, np.nan], [0.9, 0.7, np.nan]])
    assert mean_of_medians(scores) == pytest.approx((0.0 + 0.6) / 2)
    assert np.isnan(mean_of_medians(np.full((2, 2), np.nan)))


def test_ties_count_half_and_problems_count_alike() -> None:
    mine = np.array([[2.0, 1.0], [2.0, np.nan]])
    theirs = np.array([[1.0, 1.0], [3.0, 1.0]])
    assert probability_of_improvement(mine, theirs) == pytest.approx((0.5 + 0.5) / 2)
    assert probability_of_improvement(theirs + 9, mine) == pytest.approx(1.0)
    assert np.isnan(probability_of_improvement(mine, np.full((2, 2), np.nan)))


def test_failed_run_loses_and_a_missing_one_does_not_play() -> None:
    works, fails = np.full((4, 1), 0.5), np.array([[0.9], [0.0], [0.0], [np.nan]])
    assert probability_of_improvement(fails, works) == pytest.approx(1 / 3)
    assert probability_of_improvement(works, fails) == pytest.approx(2 / 3)


def test_a_profile_is_the_share_of_runs_with_at_least_a_score() -> None:
    scores = np.array([[0.5, 1.0], [0.75, 0.0], [np.nan, np.nan]])
    thresholds = np.array([0.1, 0.6, 0.8, 1.0])
    share, low, high = performance_profile(scores, thresholds)
    np.testing.assert_allclose(share, [0.75, 0.5, 0.25, 0.25])
    assert (low <= share).all()
    assert (share <= high).all()


def mean(scores: FloatArray) -> FloatArray:
    average: FloatArray = scores.mean(axis=(-2, -1))
    return average


def test_an_interval_is_that_of_95_percent() -> None:
    """The bootstrap of a mean of many normal values is normal: 1.96 standard errors."""
    scores = np.random.default_rng(0).normal(size=(400, 1))
    value, low, high = bootstrap(mean, scores)
    standard_error = scores.std() / np.sqrt(scores.size)
    assert high - value == pytest.approx(1.96 * standard_error, rel=0.08)
    assert value - low == pytest.approx(1.96 * standard_error, rel=0.08)


def test_runs_are_drawn_within_problems() -> None:
    scores = np.tile([0.0, 1.0, 5.0], (6, 1))
    value, low, high = bootstrap(mean, scores)
    assert low == value == high == pytest.approx(2.0)


def test_equal_scores_make_equal_intervals() -> None:
    scores = np.random.default_rng(1).random((5, 3))
    assert bootstrap(interquartile_mean, scores) == bootstrap(interquartile_mean, scores)


def test_runs_of_different_problems_are_drawn_apart() -> None:
    opposite = np.array([[0.0, 1.0], [1.0, 0.0]] * 4)
    _, low, high = bootstrap(mean, opposite)
    assert low < 0.4 < 0.6 < high


@pytest.mark.parametrize(
    "statistic", [interquartile_mean, mean_of_medians, probability_of_improvement]
)
def test_many_resamples_at_once_are_each_one_alone(statistic: Callable[..., FloatArray]) -> None:
    rng = np.random.default_rng(3)
    scores = rng.choice([0.0, 0.5, 0.7, 0.9, np.nan], size=(2, 50, 4, 3))
    given = scores if statistic is probability_of_improvement else scores[:1]
    together = statistic(*given)
    alone = [statistic(*(score[k] for score in given)) for k in range(50)]
    np.testing.assert_allclose(together, alone)
