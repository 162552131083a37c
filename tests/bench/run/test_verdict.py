"""When a placement counts as faster than the best single device."""

from __future__ import annotations

import pytest

from placement_gym.bench.run.finalists import NO, WITHIN_NOISE, YES, compare_with_best_single


@pytest.mark.parametrize(
    ("ratio", "noise", "doubt", "verdict"),
    [
        (1.2, 0.05, "", YES),
        (1.2, 0.05, "the machine was busy", WITHIN_NOISE),
        (1.02, 0.05, "", WITHIN_NOISE),
        (0.8, 0.05, "", NO),
        (1.0004, 0.0, "", NO),  # a gain that tables write as 0.0 % is none
        (1.0006, 0.0, "", YES),
    ],
)
def test_a_win_exceeds_the_noise_and_what_tables_show(
    ratio: float, noise: float, doubt: str, verdict: str
) -> None:
    assert compare_with_best_single(ratio, noise, doubt) == verdict
