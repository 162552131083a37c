"""How reports write latencies, gaps and bounds of any scale."""

from __future__ import annotations

import pytest

from placement_gym.base.texts import format_ms
from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.report.wording import format_gap


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_gap_is_a_share_at_any_scale(scale: float) -> None:
    known = KnownLatencies(bound_ms=2.0 * scale)
    assert format_gap(2.5 * scale, known) == "≤ 25.0 %"
    assert format_gap(2.5 * scale, KnownLatencies(optimum_ms=2.0 * scale)) == "25.0 %"


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_gap_is_never_negative(scale: float) -> None:
    known = KnownLatencies(bound_ms=scale * (1 + 1e-7))
    assert format_gap(scale, known) == "≤ 0.0 %"
    assert format_gap(scale, known.add_proof([scale])) == "0.0 %"


def test_where_nothing_takes_time_the_latency_is_the_optimum() -> None:
    known = KnownLatencies(bound_ms=0.0)
    assert known.add_proof([0.0]).optimum_ms == 0.0
    assert known.add_proof([1e-300]).optimum_ms is None
    assert format_gap(0.0, known) == "-"


@pytest.mark.parametrize(
    ("latency_ms", "text"),
    [(10.2, "10.20"), (0.01234567, "0.01235"), (999.97, "1000"), (14783.9, "14784")],
)
def test_a_latency_has_four_digits_and_no_exponent(latency_ms: float, text: str) -> None:
    assert format_ms(latency_ms) == text
