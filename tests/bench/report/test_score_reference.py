"""What scores are relative to, and which problems say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.report.scores import choose_score_reference


def runs(**latencies_ms: float | None) -> list[dict[str, Any]]:
    return [{"label": label, "latency_ms": ms} for label, ms in latencies_ms.items()]


def test_best_known_value_counts_if_the_study_is_not_better() -> None:
    known = KnownLatencies(10.0, bound_ms=2.0, best_known_ms=4.0, origin="milp, abc, 2026-01-01")
    for found_ms in (5.0, 4.0):
        reference = choose_score_reference(known, runs(random=found_ms))
        assert (reference.latency_ms, reference.origin) == (4.0, "milp, abc, 2026-01-01")
        assert not reference.trivial


def test_a_better_latency_counts_and_is_called_new() -> None:
    known = KnownLatencies(10.0, bound_ms=2.0, best_known_ms=4.0, origin="milp, abc, 2026-01-01")
    reference = choose_score_reference(known, runs(random=5.0, hsdag=3.9))
    assert reference.latency_ms == 3.9
    assert reference.origin == (
        "new in this study: hsdag, 2.5 % below 4 ms by milp, abc, 2026-01-01"
    )


def test_without_a_known_value_the_study_alone_says_so() -> None:
    reference = choose_score_reference(
        KnownLatencies(5.0, bound_ms=2.0), runs(random=5.0, bad=None)
    )
    assert (reference.latency_ms, reference.origin) == (5.0, "this study alone: random")
    assert not reference.trivial


def test_a_proven_optimum_counts() -> None:
    reference = choose_score_reference(KnownLatencies(5.0, 3.0, 3.0), runs(random=5.0))
    assert (reference.latency_ms, reference.origin) == (3.0, "proven optimum")
    assert not reference.trivial


@pytest.mark.parametrize(
    ("known", "trivial"),
    [
        (KnownLatencies(3.0, 3.0, 3.0), True),
        (KnownLatencies(3.00001, 3.0, 3.0), True),
        (KnownLatencies(3.1, 3.0, 3.0), False),
        (KnownLatencies(3.0, None, 2.0, best_known_ms=3.0), True),
        (KnownLatencies(None, None, 2.0, best_known_ms=3.0), False),
        (KnownLatencies(3.0, None, 2.0), False),
    ],
)
def test_problem_is_trivial_if_one_device_reaches_the_best_known(
    known: KnownLatencies, trivial: bool
) -> None:
    assert choose_score_reference(known, runs(random=3.2)).trivial is trivial


def test_a_faster_split_ends_the_triviality() -> None:
    known = KnownLatencies(3.0, None, 2.0, best_known_ms=3.0)
    assert not choose_score_reference(known, runs(random=2.9)).trivial


def test_without_any_latency_there_is_no_reference() -> None:
    assert np.isnan(choose_score_reference(KnownLatencies(), runs(random=None)).latency_ms)
