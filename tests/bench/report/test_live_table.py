# White-box tests of bench.report
"""What a comparison shows before and while it runs, on a terminal and without one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import show_waiting
from placement_gym.bench.report import warn_if_busy
from placement_gym.bench.report.live_table import (
    BASE,
    STRIP_WIDTH,
    Line,
    draw_strip,
    estimate_minutes,
)
from placement_gym.bench.run import BenchEnv, Task
from placement_gym.cli import main
from placement_gym.problem import Placement

SIM = ["compare", "--env", "DevicePlacementSim-v0", "--model", "tiny", "--budget", "6"]
LIMITED = [*SIM, "--devices", "cpu-testbed-limited"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat simulated latencies as measured; OpenVINO's own choice is the first device."""
    monkeypatch.setattr(BenchEnv, "measured", property(lambda _: True))
    first = lambda backend, plugin: backend.problem.single(0)  # noqa: E731
    monkeypatch.setattr(SimulatedBackend, "own_choice", first)


def task(agent: str, budget: int = 10) -> Task:
    return Task(agent, {}, "", {}, "", None, 0, budget)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_shows_a_table_and_json_stays_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*LIMITED, "--agents", "random", "--json", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)["rows"]
    *_, random = (line for line in printed.err.splitlines() if line.startswith("random   "))
    assert random.split()[1:4] == ["done", "6/6", f"{rows[-1]['latency_ms']:.2f}"]
    assert re.search("single-device CPU_FAST +does not fit", printed.err)
    assert f"({BASE}: 1)" in printed.err
    assert "random: a random device for every unit" in printed.err
    assert ", seed 0: " not in printed.err


@pytest.mark.usefixtures("terminal")
def test_on_80_columns_no_row_is_torn_and_the_legend_has_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*LIMITED, "--agents", "random-blocks", "--json", "--out", str(tmp_path)]) == 0
    *_, last = re.split("agent  +", capsys.readouterr().err)
    rows = re.findall(r"^(\w\S*(?: \S+)?) +(?:done \d/\d|does not fit) ", last, re.MULTILINE)
    assert rows == ["single-device CPU", "single-device CPU_FAST", "random-blocks"]
    assert re.search(r"speed-up: x the best single device; samples: .*: 1\).*\n.*3/3 runs", last)


@pytest.mark.usefixtures("measured")
def test_without_a_terminal_the_plan_comes_first_then_a_line_for_each_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*LIMITED, "--agents", "random", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().err
    lines, words = printed.splitlines(), " ".join(printed.split())
    plan, random = (
        next(at for at, line in enumerate(lines) if line.startswith(word))
        for word in ("tiny: 7 units", "random, seed 0: ")
    )
    assert plan < random
    assert re.search(
        "3 runs of at most 6 evaluations.* 3 finalists.* 1 minute on an idle machine", words
    )
    assert re.search("CPU_FAST alone, seed 0: .*0.3 of 0.6 MB", words)


def test_quiet_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*LIMITED, "--agents", "random", "--quiet", "--json", "--out", str(tmp_path)])
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("terminal", "measured")
def test_equal_choices_of_openvino_have_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = ["--agents", "openvino-hetero,openvino-auto"]
    assert main([*SIM, *agents, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    *_, last = printed.err.split("agent ")
    for name in ("openvino-hetero", "openvino-auto"):
        assert re.search(rf"^{name} +done 1/1 ", last, re.MULTILINE)
        assert re.search(rf"^{name} +0 +\d+\.\d\d ", printed.out, re.MULTILINE)
        assert f"| {name} | 0 |" in (tmp_path / "table.md").read_text()
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 4


@pytest.mark.usefixtures("terminal")
def test_who_holds_the_lock_stands_below_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save = Placement.save

    waiting = "waiting 3 s for process 7 (placement-gym plan -m gpt)"

    def wait_and_save(*args: Any, **kwargs: Any) -> None:
        show_waiting(waiting)
        save(*args, **kwargs)

    monkeypatch.setattr(Placement, "save", wait_and_save)
    main([*SIM, "--agents", "random", "--out", str(tmp_path)])
    lines = capsys.readouterr().err.splitlines()
    at = lines.index(waiting)
    assert lines[at - 1].startswith("samples: ") or BASE in lines[at - 1]
    assert "/3 runs" in lines[at + 1]


@pytest.mark.parametrize(
    ("load", "env", "line"),
    [
        (7.6, "DevicePlacement-v0", "load 7.6 on 2 cores.*verdict\n"),
        (1.9, "DevicePlacement-v0", ""),
        (7.6, "DevicePlacementSim-v0", ""),
    ],
)
def test_a_busy_machine_is_said_where_latencies_are_measured(
    load: float,
    env: str,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    warn_if_busy(env)
    assert re.fullmatch(line, capsys.readouterr().err)


def test_an_estimate_grows_with_budgets_and_latencies() -> None:
    runs = [task("single-device"), task("random"), task("window")]
    assert estimate_minutes(runs[:1], 10.0) == "1 minute"
    assert estimate_minutes(runs, 1000.0) == "4 minutes"
    assert estimate_minutes([task("random", 1000)], 100.0) == "15 minutes"


def test_a_strip_has_a_common_scale_and_shows_where_one_is() -> None:
    strip = draw_strip(np.array([0.5, 0.5, 0.5, 0.5, 1.5]), 0.5, 1.5)
    assert len(strip) == STRIP_WIDTH
    assert (strip[0], strip[-1]) == ("\N{BLACK CIRCLE}", "\N{MIDDLE DOT}")
    assert strip[STRIP_WIDTH // 2] == BASE
    faster = draw_strip(np.array([2.0]), 1.0, 2.0)
    assert (faster[0], faster[-1]) == (BASE, "\N{MIDDLE DOT}")


def test_states_follow_the_evaluations_of_all_seeds() -> None:
    row = {"error": "", "warning": "", "evaluations": 10}
    line = Line([task("random"), task("random")], [row], [], 3)
    assert line.describe_state(running=True) == "searching 13/20"
    line.evaluations = 10
    assert line.describe_state(running=True) == "finalists 20/20"


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "done 10/10"),
        ({"warning": "other programs took 40% of the time"}, "doubtful 10/10"),
        ({"error": "RuntimeError: no"}, "failed"),
    ],
)
def test_a_state_says_what_is_wrong_with_a_run(change: dict[str, str], state: str) -> None:
    row = {"error": "", "warning": "", "evaluations": 10} | change
    assert Line([task("random")], [row]).describe_state(running=False) == state
