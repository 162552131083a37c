"""Progress is seen with and without a terminal."""

from __future__ import annotations

from time import sleep

import pytest

from placement_gym.base import progress
from placement_gym.base.progress import begin, progress_bar
from placement_gym.base.shown_task import show_waiting


def run(quiet: bool) -> None:
    with progress_bar(40, "measurements", quiet, "evaluations", description="profiling") as bar:
        bar.advance(bar.task_ids[0], 3)
        bar.tasks[0].fields["count"] = 12
        sleep(0.3)


def test_without_a_terminal_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.02)
    monkeypatch.setattr(progress, "NEXT_LINE_S", 0.02)
    run(quiet=False)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("profiling: 3 of 40 measurements, 12 evaluations, 0:00:0")


def test_steps_that_end_at_once_do_not_hasten_the_time_left() -> None:
    with progress_bar(16, "runs", quiet=True) as bar:
        begin(bar, 10)
        for later in (bar.get_time() + 100.0, bar.get_time() + 200.0):
            bar.get_time = lambda later=later: later
            bar.advance(bar.task_ids[0])
            bar.advance(bar.task_ids[0])
        assert 100.0 <= bar.tasks[0].time_remaining <= 102.0


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
        sleep(0.3)
    assert capsys.readouterr().err.startswith("reading the model: 0:00:0")


def test_what_is_waited_for_stands_in_place_of_what_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.02)
    monkeypatch.setattr(progress, "NEXT_LINE_S", 0.02)
    show_waiting("nobody looks")
    with progress_bar(11, "measurements", False, description="profiling") as bar:
        bar.advance(bar.task_ids[0], 5)
        show_waiting("waiting 3 s for process 7 (plan)")
        sleep(0.2)
        waiting = capsys.readouterr().err.splitlines()[-1]
        show_waiting("")
        sleep(0.2)
    assert waiting.startswith("waiting 3 s for process 7 (plan): 5 of 11 measurements, ")
    assert capsys.readouterr().err.splitlines()[-1].startswith("profiling: 5 of 11")


def test_on_a_terminal_who_waits_keeps_room_for_the_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with progress_bar(11, "measurements", False) as bar:
        show_waiting(f"waiting 3 s for process 7 ({'plan ' * 30})")
        bar.refresh()
        printed = capsys.readouterr().err
    assert "waiting 3 s for process 7 (plan " in printed
    assert "0/11" in printed
