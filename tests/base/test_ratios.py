"""Printed speed-ups: an interval is a factor either way, and a number that says nothing is none."""

from __future__ import annotations

import pytest

from placement_gym.backends import NO, WITHIN_NOISE, YES, judge
from placement_gym.base import format_ratio, interval, join_noise


@pytest.mark.parametrize(
    ("ratio", "noise", "printed"),
    [
        (1.21, 0.0, "1.210"),
        (1.21, 0.025, "1.210 ±0.030"),
        (0.75, 0.25, "0.750 (0.600 to 0.938)"),
        (0.747, 1.577, "not measurable"),
        (1.0, 0.51, "not measurable"),
        (5.0, 1.0, "5.000 (2.500 to 10.000)"),
    ],
)
def test_a_ratio_is_printed_with_what_is_known_of_it(
    ratio: float, noise: float, printed: str
) -> None:
    assert format_ratio(ratio, noise) == printed


@pytest.mark.parametrize("noise", [0.01, 0.4, 3.0])
def test_no_interval_reaches_zero_and_all_are_symmetric_in_logs(noise: float) -> None:
    low, high = interval(0.7, noise)
    assert 0.0 < low < 0.7 < high
    assert low * high == pytest.approx(0.49)


@pytest.mark.parametrize(
    ("ratio", "noise", "verdict"), [(1.2, 0.19, YES), (1.2, 0.21, WITHIN_NOISE), (0.8, 0.24, NO)]
)
def test_a_verdict_is_that_of_the_printed_interval(
    ratio: float, noise: float, verdict: str
) -> None:
    assert judge(ratio, noise) == verdict


def test_noise_of_a_quotient_is_that_of_both_factors() -> None:
    assert join_noise(0.5, 1.0) == pytest.approx(2.0)
    assert join_noise(0.3, 0.0) == pytest.approx(0.3)
