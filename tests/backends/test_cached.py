from __future__ import annotations

import numpy as np
import pytest
from fakes import FakeBackend, assignment, diamond_problem

from placement_gym.backends import CachedBackend
from placement_gym.hardware import DeviceSpec

MIXED = [0, 1, 1, 0]


@pytest.fixture
def inner() -> FakeBackend:
    return FakeBackend()


def test_answer_from_memory_keeps_its_reference_and_takes_0_s(inner: FakeBackend) -> None:
    backend = CachedBackend(inner)
    first = backend.evaluate(assignment(MIXED))
    inner.cost = lambda _: 99.0
    second = backend.evaluate(assignment(MIXED))
    assert (second.latency_ms, second.reference_ms) == (first.latency_ms, first.reference_ms)
    assert (second.compile_s, second.measure_s) == (0.0, 0.0)


def test_memory_survives_the_callers_changes_to_its_array(inner: FakeBackend) -> None:
    backend = CachedBackend(inner)
    placed = assignment(MIXED)
    backend.evaluate(placed)
    placed[:] = 1
    assert not backend.evaluate(placed).cached
    assert backend.evaluate(assignment(MIXED)).cached


def test_score_and_evaluate_share_their_memory(inner: FakeBackend) -> None:
    backend = CachedBackend(inner)
    backend.evaluate_ignoring_limits(assignment(MIXED))
    assert backend.evaluate(assignment(MIXED)).cached


def test_a_known_score_does_not_lift_the_memory_limit() -> None:
    limited = (DeviceSpec("CPU"), DeviceSpec("GPU", weight_share=0.5))
    backend = CachedBackend(FakeBackend(problem=diamond_problem(limited)))
    everything = assignment([1, 1, 1, 1])
    assert backend.evaluate_ignoring_limits(everything).feasible
    assert not backend.evaluate(everything).feasible
    assert backend.evaluate_ignoring_limits(everything).feasible


def test_a_failure_is_remembered_with_its_reason() -> None:
    inner = FakeBackend(failures=[MIXED])
    backend = CachedBackend(inner)
    answers = [backend.evaluate(assignment(MIXED)) for _ in range(2)]
    assert [answer.error for answer in answers] == ["the device caught fire"] * 2
    assert len(inner.calls) == 1


def test_remeasure_always_reaches_the_inner_backend(inner: FakeBackend) -> None:
    backend = CachedBackend(inner)
    backend.evaluate(assignment(MIXED))
    measured = backend.remeasure([assignment(MIXED), assignment([0, 0, 0, 0])])
    assert inner.calls_of("remeasure") == 2
    assert [m.cached for m in measured] == [False, False]


def test_own_choice_and_close_reach_the_inner_backend(inner: FakeBackend) -> None:
    backend = CachedBackend(inner)
    np.testing.assert_array_equal(backend.own_choice("AUTO"), [1, 1, 1, 1])
    backend.close()
    assert inner.closed
