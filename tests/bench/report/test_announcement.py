"""What a comparison says before and while it runs, on a terminal and without one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.bench.report.announcement import warn_if_busy
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.cli.main import main

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


@pytest.mark.usefixtures("terminal")
def test_a_terminal_shows_each_run_and_json_stays_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*LIMITED, "--agents", "random", "--json", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)["rows"]
    assert f"random, seed 0: {rows[-1]['latency_ms']:.2f} ms" in printed.err
    assert "CPU_FAST alone, seed 0: does not fit, 0.3 of 0.6 MB" in printed.err
    assert "3/3 runs" in printed.err


@pytest.mark.usefixtures("measured")
def test_the_plan_comes_first_then_a_line_for_each_run(
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
    assert "3 runs; 6 evaluations for each search; up to 3 finalists" in words
    assert "CPU_FAST alone, seed 0: does not fit, 0.3 of 0.6 MB" in lines


def test_quiet_shows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*LIMITED, "--agents", "random", "--quiet", "--json", "--out", str(tmp_path)])
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("measured")
def test_equal_choices_of_openvino_share_a_line(tmp_path: Path) -> None:
    agents = ["--agents", "openvino-hetero,openvino-auto"]
    assert main([*SIM, *agents, "--out", str(tmp_path)]) == 0
    assert "| openvino-hetero = openvino-auto |" in (tmp_path / "table.md").read_text()
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("load", "env", "words"),
    [
        (7.6, "DevicePlacement-v0", "load 7.6 on 2 cores: expect no verdict\n"),
        (1.9, "DevicePlacement-v0", ""),
        (7.6, "DevicePlacementSim-v0", ""),
    ],
)
def test_a_busy_machine_is_said_where_latencies_are_measured(
    load: float,
    env: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    warn_if_busy(env)
    assert capsys.readouterr().err == words
