# White-box tests of base, deployment
"""Candidates of a plan: those that cannot run are named, and the fastest is measured again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from time import sleep
from typing import Any

import numpy as np
import pytest
from fakes import LIMITED, FakeBackend, diamond_problem

from placement_gym.backends import Finals, Measurement
from placement_gym.backends.measured import QUICK
from placement_gym.base import IntArray, progress
from placement_gym.deployment.candidates import Candidate
from placement_gym.deployment.selection import (
    add_measurement,
    choose,
    confirm,
    find_unconfirmed,
    make_rows,
    measure_candidates,
    state_plan_verdict,
)

ALONE, SPLIT = np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1])


def alone(measured: Measurement | None = None) -> Candidate:
    return Candidate("GPU alone", ALONE, 9.0, measured=measured)


def split(measured: Measurement | None = None) -> Candidate:
    return Candidate("milp", SPLIT, 8.0, measured=measured)


def slow(measured: Measurement | None = None) -> Candidate:
    return Candidate("CPU alone", 1 - ALONE, 19.0, measured=measured)


def measured_together(backend: Any, *candidates: Candidate) -> Finals:
    finals = Finals(backend)
    finals.keep([one.assignment for one in candidates], [one.result for one in candidates])
    return finals


class FailingBackend(FakeBackend):
    """Refuses to measure any of its failing placements again, as OpenVINO does."""

    protocol = QUICK

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        if any(tuple(assignment.tolist()) in self.failures for assignment in assignments):
            raise RuntimeError("the device caught fire")
        return super().remeasure(assignments)


def test_a_candidate_that_fails_to_run_is_left_out_and_named() -> None:
    backend = FailingBackend(failures=[SPLIT.tolist()])
    found, stopped = measure_candidates(backend, [alone(), split()], quiet=True)
    assert [one.label for one in found if one.measured] == ["GPU alone"]
    assert (found[0].error, stopped) == ("", "")
    assert "does not run: the device caught fire" in found[1].error
    rows = make_rows(found)
    assert choose(rows) == "GPU alone"
    assert re.fullmatch("No split beats GPU alone: no .*", state_plan_verdict(rows, "GPU alone"))


def test_where_every_candidate_fails_none_is_measured() -> None:
    backend = FailingBackend(failures=[ALONE.tolist()])
    ((found,), _) = measure_candidates(backend, [alone()], quiet=True)
    assert found.measured is None
    assert found.error


def test_candidates_that_memory_forbids_are_not_run() -> None:
    backend = FailingBackend(problem=diamond_problem(LIMITED))
    ((found,), _) = measure_candidates(backend, [alone()], quiet=True)
    assert found.measured is None
    assert "GPU would hold" in found.error
    assert not backend.calls_of("evaluate_ignoring_limits")
    assert not backend.calls_of("remeasure")


def test_a_race_of_two_is_repeated_only_if_it_is_doubtful_and_one_of_several_is() -> None:
    backend: Any = FailingBackend(cost=lambda placed: {4: 9.0, 3: 8.0, 0: 17.0}[int(placed.sum())])
    measure_candidates(backend, [alone(), split()], quiet=True)
    assert backend.calls_of("remeasure") == 2
    measure_candidates(backend, [alone(), split(), slow()], quiet=True)
    assert backend.calls_of("remeasure") == 2 + 3 + 2
    doubtful = Measurement(8.0, 9.0, warning="a load")
    found = [alone(Measurement(9.0, 9.0)), split(doubtful)]
    confirm(backend, measured_together(backend, *found), found, quiet=True)
    assert backend.calls_of("remeasure") == 2 + 3 + 2 + 2


def test_what_is_handed_over_is_measured_again_without_rivals() -> None:
    class LessLucky(FakeBackend):
        """The second time the split gains 5 instead of 25 %, on a machine of half the speed."""

        protocol = QUICK

        def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
            assert [one.tolist() for one in assignments] == [ALONE.tolist(), SPLIT.tolist()]
            return [Measurement(20.0, 20.0, 20.0), Measurement(19.0, 20.0, 19.0, noise=0.01)]

    first = [alone(Measurement(10.0, 10.0, 10.0)), split(Measurement(8.0, 10.0, 8.0))]
    finals = measured_together(LessLucky(), *first)
    finals.choose([SPLIT])
    times = [add_measurement(finals, one).result for one in first]
    assert [(one.latency_ms, one.reference_ms) for one in times] == [(20.0, 20.0), (19.0, 20.0)]
    assert find_unconfirmed(finals) is None


@pytest.mark.parametrize(("latency_ms", "may_win"), [(9.7, True), (10.2, False), (12.0, False)])
def test_a_split_that_may_be_faster_is_measured_again(latency_ms: float, may_win: bool) -> None:
    single = alone(Measurement(10.0, 10.0, 10.0))
    exact = split(Measurement(latency_ms, 10.0, latency_ms, noise=0.01))
    assert bool(find_unconfirmed(measured_together(FakeBackend(), single, exact))) is may_win
    loose = split(replace(exact.result, noise=0.05))
    assert choose(make_rows([single, loose])) == "GPU alone"
    found = find_unconfirmed(measured_together(FakeBackend(), single, loose))
    assert bool(found) is (latency_ms < 12.0)


def test_a_plan_confirms_what_equals_the_best_device_within_noise() -> None:
    class Exact(FakeBackend):
        protocol = QUICK

        def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
            return [Measurement(10.0, 10.0, 10.0), Measurement(9.6, 10.0, 9.6, noise=0.01)]

    single = Measurement(10.0, 10.0, 10.0)
    loose = split(Measurement(9.8, 10.0, 9.8, noise=0.05))
    found = [alone(single), loose, slow(Measurement(20.0, 10.0, 20.0))]
    assert choose(make_rows(found)) == "GPU alone"
    backend: Any = Exact()
    finals = measured_together(backend, *found)
    confirm(backend, finals, found, quiet=True)
    assert choose(make_rows([add_measurement(finals, one) for one in found])) == "milp"


def test_an_interrupted_confirmation_keeps_the_one_before_and_says_which() -> None:
    races = iter([(10.0, 8.0, 8.2), (10.0, 9.9)])

    class Interrupted(FakeBackend):
        """A race; milp again, which is less lucky; Ctrl-C while window is measured again."""

        protocol = QUICK

        def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
            times_ms = next(races, None)
            if times_ms is None:
                raise KeyboardInterrupt
            return [Measurement(ms, 10.0, ms, noise=0.02) for ms in times_ms]

    backend: Any = Interrupted()
    window = Candidate("window", 1 - SPLIT, 8.5)
    found, stopped = measure_candidates(backend, [alone(), split(), window], quiet=True)
    assert stopped == "the plan of one race, with only milp measured again"
    assert [one.result.latency_ms for one in found] == [10.0, 9.9, 8.2]


def test_all_rounds_are_shown_and_of_long_ones_fewer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "NEXT_LINE_S", 0.01)
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.01)
    said: list[str] = []

    class Slow(FakeBackend):
        """Tells that most of a round is over, after more than a race may take."""

        protocol = replace(QUICK, final_s=0.0)

        def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
            self.on_rounds(0.75, [])
            for _ in range(20):
                sleep(0.01)
                said.append(capsys.readouterr().err)
            return [Measurement(10.0, 10.0, 10.0), Measurement(8.0, 10.0, 8.0)]

    found = [
        alone(Measurement(10.0, 10.0)),
        split(Measurement(8.0, 10.0)),
        slow(Measurement(19.0, 10.0)),
    ]
    backend: Any = Slow()
    confirm(backend, measured_together(backend, *found), found, quiet=False)
    assert "measuring milp again: 0 of 3 rounds at most, 0:00:00, about" in "".join(said)
