# White-box tests of base
"""Progress is seen with and without a terminal."""

from __future__ import annotations

from time import sleep

import pytest
from rich.progress import Progress

from placement_gym.base import begin, progress, progress_bar, show_waiting
from placement_gym.base.progress import estimate_left


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


class Clock:
    """The time of a bar, which passes when it is told to."""

    def __init__(self, bar: Progress) -> None:
        self.bar, self.now = bar, bar.get_time()
        bar.get_time = bar.tasks[0]._get_time = lambda: self.now

    def wait(self, seconds: float) -> float | None:
        """The time that is left after some seconds."""
        self.now += seconds
        return estimate_left(self.bar.tasks[0])


def test_steps_that_end_at_once_do_not_hasten_the_time_left() -> None:
    with progress_bar(16, "runs", quiet=True) as bar:
        clock = Clock(bar)
        begin(bar, 10)
        for _ in range(2):
            clock.wait(100.0)
            bar.advance(bar.task_ids[0])
            bar.advance(bar.task_ids[0])
        assert clock.wait(0.0) == pytest.approx(100.0)


def test_a_step_that_takes_longer_than_those_before_counts_while_it_runs() -> None:
    with progress_bar(11, "measurements", quiet=True) as bar:
        clock = Clock(bar)
        begin(bar)
        assert clock.wait(5.0) is None
        for _ in range(6):
            clock.wait(5.0)
            bar.advance(bar.task_ids[0])
        begun = clock.wait(0.0)
        assert begun is not None
        assert clock.wait(2.0) == pytest.approx(begun - 2.0)
        late = clock.wait(290.0)
        assert late is not None
        assert late > 100.0


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
