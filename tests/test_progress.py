"""Progress is seen with and without a terminal."""

from __future__ import annotations

from time import sleep

import pytest

from placement_gym import progress
from placement_gym.progress import progress_bar


def run(quiet: bool) -> None:
    with progress_bar(40, "measurements", quiet, "evaluations", description="profiling") as bar:
        bar.advance(bar.task_ids[0], 3)
        bar.tasks[0].fields["count"] = 12
        sleep(0.1)


def test_without_a_terminal_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.02)
    run(quiet=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("profiling: 3 of 40 measurements, 12 evaluations, 0:00:0")


def test_what_is_quick_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run(quiet=False)
    assert capsys.readouterr().err == ""


def test_quiet_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.02)
    run(quiet=True)
    assert capsys.readouterr().err == ""


def test_an_unknown_total_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.02)
    with progress_bar(None, "", False, description="reading the model"):
        sleep(0.1)
    assert capsys.readouterr().err.startswith("reading the model: 0:00:0")
