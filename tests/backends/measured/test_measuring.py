# White-box tests of backends.measured
"""Around one measurement: further attempts, memory of failures, warning."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes import assignment
from scripted_engine import Answer, ScriptedEngine

from placement_gym.backends import EngineFailureError, Kind, Measurement
from placement_gym.backends.measured import backend as measured_backend
from placement_gym.backends.measured import interference
from placement_gym.base import EngineError
from placement_gym.envs import DevicePlacementEnv

MIXED, OTHER = assignment([0, 1, 1, 0]), assignment([1, 1, 0, 0])
DEAD = EngineFailureError(Kind.DEAD, "killed by SIGSEGV")
REFUSED = EngineFailureError(Kind.INFEASIBLE, "no such operator")
BUSY = EngineFailureError(Kind.TRANSIENT, "out of memory")
INVALID = EngineFailureError(Kind.INVALID_VALUE, "-1 ms")


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A machine without load that shows no more, whose clock records pauses instead of waiting."""
    pauses: list[float] = []
    monkeypatch.setattr(measured_backend, "sleep", pauses.append)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(interference, "is_visible", lambda: False)
    return pauses


@pytest.mark.parametrize(
    ("answers", "log"),
    [
        ([10.0], ["measure"]),
        ([DEAD, 10.0], ["measure", "restart", "measure"]),
        ([BUSY, BUSY, 10.0], ["measure", "restart", "measure", "restart", "measure"]),
        ([INVALID, 10.0], ["measure", "measure"]),
        ([INVALID, DEAD, 10.0], ["measure", "measure", "restart", "measure"]),
    ],
)
def test_a_failure_that_may_pass_is_tried_again(answers: Sequence[Answer], log: list[str]) -> None:
    engine = ScriptedEngine(answers)
    measured = engine.evaluate(MIXED)
    assert (measured.error, measured.latency_ms) == ("", 5.0)
    assert engine.log == log


@pytest.mark.parametrize(
    ("failure", "n_attempts", "remembered"),
    [(REFUSED, 1, False), (DEAD, 2, True), (INVALID, 3, True)],
)
def test_one_that_does_not_pass_is_infeasible_with_its_reason(
    failure: EngineFailureError, n_attempts: int, remembered: bool
) -> None:
    engine = ScriptedEngine([*[failure] * n_attempts, 10.0])
    measured = engine.evaluate(MIXED)
    assert measured.error == str(failure)
    assert measured.latency_ms == 100.0
    assert engine.log.count("measure") == n_attempts
    assert bool(engine.evaluate(MIXED).error) == remembered
    assert engine.evaluate(OTHER).feasible


def test_a_transient_failure_never_becomes_a_result(quiet_machine: list[float]) -> None:
    engine = ScriptedEngine([BUSY])
    with pytest.raises(EngineError, match="out of memory"):
        engine.evaluate(MIXED)
    assert engine.log.count("measure") == 5
    assert quiet_machine == sorted(quiet_machine)
    assert not engine.session.failures


def test_an_engine_that_is_dead_altogether_blames_no_placement() -> None:
    engine = ScriptedEngine([DEAD], reference=EngineError("the reference device does not run"))
    with pytest.raises(EngineError, match="reference device does not run"):
        engine.evaluate(MIXED)
    assert engine.log == ["measure", "restart", "measure", "restart", "check"]
    assert not engine.session.failures


def test_reference_that_moved_is_measured_again() -> None:
    engine = ScriptedEngine([10.0, 10.1, 9.9, 12.0, 10.0])
    found = [engine.evaluate(MIXED) for _ in range(4)]
    assert [m.warning for m in found] == [""] * 4
    assert found[-1].reference_ms == 10.0
    assert engine.log.count("measure") == 5


@pytest.mark.parametrize("failure", [BUSY, DEAD, INVALID, REFUSED])
def test_failed_repeat_leaves_the_first_sample_with_its_doubt(failure: EngineFailureError) -> None:
    engine = ScriptedEngine([10.0, 10.0, 10.0, 12.0, failure])
    found = [engine.evaluate(MIXED) for _ in range(4)][-1]
    assert (found.error, found.reference_ms) == ("", 12.0)
    assert "reference moved by +20%; " in found.warning
    assert found.warning.endswith(f"failed: {failure}")
    assert not engine.session.failures


def test_reference_that_stays_away_marks_the_sample() -> None:
    engine = ScriptedEngine([10.0, 10.0, 10.0, 12.0])
    found = [engine.evaluate(MIXED) for _ in range(8)]
    assert [bool(m.warning) for m in found[:4]] == [False, False, False, True]
    assert "the reference moved by +20%" in found[3].warning
    assert found[-1].warning == ""


def test_a_long_tail_marks_the_sample() -> None:
    shaky = Measurement(5.0, 10.0, 7.0, noise=0.02)
    assert "1.40 x the median" in ScriptedEngine([shaky]).evaluate(MIXED).warning
    steady = replace(shaky, latency_p90_ms=6.0)
    assert ScriptedEngine([steady]).evaluate(MIXED).warning == ""


def test_a_busy_machine_marks_the_sample_and_is_not_asked_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (9.0, 0.0, 0.0))
    engine = ScriptedEngine([10.0, 10.0, 10.0, 12.0])
    found = [engine.evaluate(MIXED) for _ in range(4)]
    assert all("load average 9.0 on 2 cores" in m.warning for m in found)
    assert engine.log.count("measure") == 4


def test_where_interference_is_seen_nothing_else_is_doubted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interference, "is_visible", lambda: True)
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    taken = Measurement(5.0, 12.0, 9.0, noise=0.02, warning="other programs took 46% of the time")
    engine = ScriptedEngine([10.0, 10.0, 10.0, replace(taken, warning=""), taken])
    assert [engine.evaluate(MIXED).warning for _ in range(5)] == [*[""] * 4, taken.warning]
    assert engine.log.count("measure") == 5


def test_the_reference_beside_itself_has_speed_up_one() -> None:
    engine = ScriptedEngine([Measurement(223.1, 183.8, 230.0, noise=0.02), 10.0])
    alone = assignment([0, 0, 0, 0])
    measured = engine.measure(alone)
    assert (measured.latency_ms, measured.speedup) == (183.8, 1.0)
    assert measured.warning == "the reference differs from itself by +21%"
    steady = ScriptedEngine([Measurement(10.2, 10.0, 10.3, noise=0.03)]).evaluate(alone)
    assert (steady.speedup, steady.warning) == (1.0, "")


def test_a_reference_unlike_itself_is_measured_again() -> None:
    samples = [Measurement(12.0, 10.0, 12.1, noise=0.02), Measurement(10.1, 10.0, 10.2, noise=0.02)]
    engine = ScriptedEngine(samples)
    assert engine.evaluate(assignment([0, 0, 0, 0])).warning == ""
    assert engine.log.count("measure") == 2


def test_the_best_single_device_is_not_behind_the_reference() -> None:
    """Both devices look slower than the reference beside them, as on a busy machine."""
    slow = [Measurement(223.1, 183.8, 230.0, noise=0.02), Measurement(224.0, 184.0, 230.0)]
    env = DevicePlacementEnv(ScriptedEngine([slow[0], slow[0], slow[1]]))
    for info in (env.reset()[1], env.step(MIXED)[-1]):
        assert info["best_single_ms"] <= info["reference_ms"]
        assert info["speedup_vs_best_single"] <= info["speedup"]
        assert "the reference differs from itself by +21%" in info["warning"]
