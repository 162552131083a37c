"""Candidates of a plan: those that cannot run are named, and two placements have to win."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from time import sleep

import numpy as np
import pytest
from fakes import LIMITED, FakeBackend, diamond_problem

from placement_gym.backends import Measurement
from placement_gym.backends.measured import QUICK
from placement_gym.base import IntArray, progress
from placement_gym.deployment.candidates import Candidate
from placement_gym.deployment.phases import Phased
from placement_gym.deployment.plan_rows import choose, find_contender, make_rows, state_plan_verdict
from placement_gym.deployment.selection import Selection, confirm, measure_again, measure_candidates

ALONE, SPLIT = np.array([1, 1, 1, 1]), np.array([0, 1, 1, 1])


class FailingBackend(FakeBackend):
    """Refuses to measure any of its failing placements again, as OpenVINO does."""

    protocol = QUICK

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        if any(tuple(assignment.tolist()) in self.failures for assignment in assignments):
            raise RuntimeError("the device caught fire")
        return super().remeasure(assignments)


def test_a_candidate_that_fails_to_run_is_left_out_and_named() -> None:
    candidates = [Candidate("GPU alone", ALONE, 9.0), Candidate("milp", SPLIT, 8.0)]
    backend = FailingBackend(failures=[SPLIT.tolist()])
    measured, errors = measure_candidates(backend, candidates, quiet=True)
    assert list(measured) == ["GPU alone"]
    assert errors.keys() == {"milp"}
    assert "the device caught fire" in errors["milp"]
    rows = make_rows(candidates, measured, errors)
    assert choose(rows) == "GPU alone"
    assert re.fullmatch("No split beats GPU alone: no .*", state_plan_verdict(rows, "GPU alone"))


def test_where_every_candidate_fails_none_is_measured() -> None:
    backend = FailingBackend(failures=[ALONE.tolist()])
    measured, errors = measure_candidates(backend, [Candidate("GPU alone", ALONE, 9.0)], quiet=True)
    assert not measured
    assert list(errors) == ["GPU alone"]


def test_candidates_that_memory_forbids_are_not_run() -> None:
    backend = FailingBackend(problem=diamond_problem(LIMITED))
    measured, errors = measure_candidates(backend, [Candidate("GPU alone", ALONE, 9.0)], quiet=True)
    assert not measured
    assert "GPU holds" in errors["GPU alone"]
    assert not backend.calls_of("evaluate_ignoring_limits")
    assert not backend.calls_of("remeasure")


@pytest.mark.parametrize(("answer", "handed_over"), [("yes", "phases"), ("no", "milp")])
def test_two_placements_are_handed_over_only_if_they_win(answer: str, handed_over: str) -> None:
    alone, split = Candidate("GPU alone", ALONE, 9.0), Candidate("milp", SPLIT, 8.0)
    both = Candidate("phases", np.stack([ALONE, SPLIT]), 7.0)
    pair = Phased(alone, split, both, {}, answer)
    found = Selection([alone, split], None, {}, [], chosen=split, pair=pair)
    assert found.winner.label == handed_over


def test_what_is_handed_over_is_measured_again_without_rivals() -> None:
    class LessLucky(FakeBackend):
        """The second time the split gains 5 instead of 25 %, on a machine of half the speed."""

        protocol = QUICK

        def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
            assert [one.tolist() for one in assignments] == [ALONE.tolist(), SPLIT.tolist()]
            return [Measurement(20.0, 20.0, 20.0), Measurement(19.0, 20.0, 19.0, noise=0.01)]

    candidates = [Candidate("GPU alone", ALONE, 9.0), Candidate("milp", SPLIT, 8.0)]
    first = {"GPU alone": Measurement(10.0, 10.0, 10.0), "milp": Measurement(8.0, 10.0, 8.0)}
    found = measure_again(LessLucky(), candidates, first, candidates[1], quiet=True)
    assert found["GPU alone"] is first["GPU alone"]
    assert (found["milp"].latency_ms, found["milp"].reference_ms) == (9.5, 10.0)
    assert measure_again(LessLucky(), candidates, first, candidates[0], quiet=True) == first


@pytest.mark.parametrize(
    ("latency_ms", "contender"), [(9.7, "milp"), (10.2, "GPU alone"), (12.0, "GPU alone")]
)
def test_a_split_that_may_be_faster_is_measured_again(latency_ms: float, contender: str) -> None:
    candidates = [Candidate("GPU alone", ALONE, 9.0), Candidate("milp", SPLIT, 8.0)]
    split = Measurement(latency_ms, 10.0, latency_ms, noise=0.01)
    found = {"GPU alone": Measurement(10.0, 10.0, 10.0), "milp": split}
    assert find_contender(make_rows(candidates, found, {})) == contender
    loose = {**found, "milp": replace(split, noise=0.05)}
    assert choose(make_rows(candidates, loose, {})) == "GPU alone"
    within = find_contender(make_rows(candidates, loose, {}))
    assert within == ("milp" if latency_ms < 12.0 else "GPU alone")


def test_a_plan_confirms_what_equals_the_best_device_within_noise() -> None:
    class Exact(FakeBackend):
        protocol = QUICK

        def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
            return [Measurement(10.0, 10.0, 10.0), Measurement(9.6, 10.0, 9.6, noise=0.01)]

    candidates = [Candidate("GPU alone", ALONE, 9.0), Candidate("milp", SPLIT, 8.0)]
    loose = Measurement(9.8, 10.0, 9.8, noise=0.05)
    found = {"GPU alone": Measurement(10.0, 10.0, 10.0), "milp": loose}
    assert choose(make_rows(candidates, found, {})) == "GPU alone"
    confirmed = confirm(Exact(), candidates, found, {}, quiet=True)
    assert choose(make_rows(candidates, confirmed, {})) == "milp"


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

    candidates = [Candidate("GPU alone", ALONE, 9.0), Candidate("milp", SPLIT, 8.0)]
    found = {"GPU alone": Measurement(10.0, 10.0, 10.0), "milp": Measurement(8.0, 10.0, 8.0)}
    measure_again(Slow(), candidates, found, candidates[1], quiet=False)
    assert "measuring milp again: 0 of 3 rounds at most, 0:00:00, about" in "".join(said)
