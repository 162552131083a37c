# White-box tests of cli, deployment
"""Measuring a saved placement again."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from rich.console import Console
from testbed import CHESSBOARD, placement

from placement_gym.backends import PENALTY, Finalist, Finals, Measurement, judge_row
from placement_gym.base import UserError
from placement_gym.cli.tables import evaluation_table, remark_on_candidate
from placement_gym.deployment import evaluate
from placement_gym.deployment.selection import measured_values
from placement_gym.envs import DevicePlacementEnv


def test_the_environment_is_closed_when_measuring_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the device caught fire")

    closed: list[DevicePlacementEnv] = []
    monkeypatch.setattr(DevicePlacementEnv, "close", lambda env: closed.append(env))
    monkeypatch.setattr(Finals, "choose", fail)
    in_this_process = partial(gym.make, isolate=False)
    monkeypatch.setattr(evaluate.gym, "make", in_this_process)
    with pytest.raises(RuntimeError, match="caught fire"):
        evaluate.evaluate_placement("tiny", placement("tiny", CHESSBOARD))
    assert len(closed) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("mine", r"--model FILE \(model=FILE\)"), ("synthetic-layered-9", "^'synthetic-layered-9'")],
)
def test_the_model_of_a_placement_may_have_to_be_named(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate.evaluate_placement(None, replace(placement("tiny", CHESSBOARD), model=name))


def test_without_a_single_device_nothing_is_compared_with_one() -> None:
    measured = Measurement(240.0, 197.0, latency_p90_ms=250.0, warning="the machine was busy")
    finalist = Finalist(np.zeros(1, np.int64), measured, speedup=0.8, handicap=PENALTY)
    values = evaluate.list_values(finalist) | {
        "model": "large",
        "notes": [],
        "alone": False,
        "saved": "Saved: a split",
    }
    assert values["best_single_ms"] is values["speedup_vs_best_single"] is None
    printed = io.StringIO()
    Console(file=printed, width=200).print(evaluation_table(values))
    text = printed.getvalue()
    assert "No single device may run the model" in text
    assert "is doubtful: the machine was busy" in text
    assert "8.2" not in text


def test_a_doubt_is_among_the_values() -> None:
    doubtful = Measurement(8.0, 10.0, warning="the machine was busy")
    values = evaluate.list_values(Finalist(np.zeros(1, np.int64), doubtful, speedup=1.0))
    assert (values["beats_best_single"], values["warning"]) == ("within noise", doubtful.warning)


def test_a_verdict_beside_other_programs_says_what_they_took() -> None:
    disturbed = Measurement(8.0, 10.0, latency_p90_ms=9.0, interference=0.23)
    values = evaluate.list_values(Finalist(np.zeros(1, np.int64), disturbed, speedup=1.25))
    shown = values | {"model": "tiny", "notes": [], "alone": False, "saved": "Saved: a split"}
    printed = io.StringIO()
    Console(file=printed, width=200).print(evaluation_table(shown))
    assert "The placement: other programs took 23% of the time" in printed.getvalue()
    assert "It beats the best single device." in printed.getvalue()


def test_a_candidate_of_a_plan_says_what_other_programs_took() -> None:
    found = Measurement(8.0, 10.0, interference=0.23)
    row = {"label": "window", "error": ""} | measured_values(found)
    assert judge_row(row) == "yes"
    assert "window: other programs took 23%" in str(next(remark_on_candidate(row)).text)
