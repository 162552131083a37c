# White-box tests of cli
"""The command line, as a user types it."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from importlib.metadata import entry_points, version
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from fakes import diamond_costs, diamond_problem
from rich.console import Console

import placement_gym
from placement_gym.cli import main
from placement_gym.cli.tables import profile_table
from placement_gym.deployment import describe_profile

TELEMETRY = "openvino_telemetry"
SIM = ["--env", "DevicePlacementSim-v0", "--model", "tiny"]


def test_json_is_one_document_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", *SIM, "--agents", "random,window", "--budget", "3"]
    assert main([*words, "--seeds", "2", "--out", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    ended = [line.partition(":")[0] for line in printed.err.splitlines() if ", seed " in line]
    assert ended == [f"{row['label']}, seed {row['seed']}" for row in document["rows"]]
    assert document["model"] == "tiny"
    assert len(document["rows"]) == 2 + 2 * 2
    assert document["optimum_ms"] <= min(row["latency_ms"] for row in document["rows"])


def test_the_command_loads_no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, TELEMETRY, raising=False)
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    with pytest.raises(ImportError):
        importlib.import_module(TELEMETRY)


def test_the_table_has_every_column_and_a_conclusion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", *SIM, "--budget", "3", "--out", str(tmp_path), "--verbose"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    for word in ("p90", "x ref", "x best", "subm.", "evals", "wall s", "optimum", "gap"):
        assert word in printed
    assert re.search("(Faster than|beats) the best single device", printed)


def test_command_with_sub_commands_alone_prints_its_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, listed in (([], "plan "), (["bench"], "report ")):
        with pytest.raises(SystemExit, match="0"):
            main(words)
        printed = capsys.readouterr()
        assert printed.out.startswith("usage: placement-gym")
        assert f"    {listed}" in printed.out
        assert printed.err == ""


def test_settings_reach_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", *SIM, "--agents", "random", "--budget", "2", "--out", str(tmp_path)]
    assert main([*words, "--json", "--set", "granularity=op", "--set", "horizon=2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["env_kwargs"]["granularity"] == "op"
    assert document["env_kwargs"]["horizon"] == 2
    assert len(document["rows"][-1]["placement"]) == 13


def test_a_profile_names_the_slowest_units_of_each_device() -> None:
    problem = diamond_problem()
    console = Console(width=120)
    with console.capture() as captured:
        console.print(profile_table(describe_profile(problem, diamond_costs(problem), None)))
    (line,) = (line for line in captured.get().splitlines() if "GPU  " in line)
    assert "11.00" in line  # the whole model
    assert "d 5.00, c 3.00, b 2.00" in line


def test_a_defect_shows_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(**kwargs: Any) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr("placement_gym.bench.compare", broken)
    with pytest.raises(TypeError, match="a defect"):
        main(["compare", *SIM, "--out", str(tmp_path)])


def test_a_failed_run_gives_exit_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path)]
    assert main(["compare", *SIM, "--agents", "saved", "--budget", "2", *out]) == 1
    assert "failed" in capsys.readouterr().out


def test_single_device_that_cannot_hold_the_model_is_no_failure(tmp_path: Path) -> None:
    words = ["compare", *SIM, "--devices", "cpu-testbed-limited", "--agents", "heft"]
    assert main([*words, "--budget", "2", "--out", str(tmp_path)]) == 0


def test_a_study_gets_the_timeout_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        "placement_gym.bench.study.run_study",
        lambda *args, timeout_s, **kwargs: given.append(timeout_s) or [],
    )
    words = ["bench", "run", "mismatch", "--out", str(tmp_path)]
    assert main([*words, "--timeout", "2.5"]) == main(words) == 0
    assert given == [2.5, None]


@pytest.mark.slow
def test_a_simulated_placement_can_be_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", *SIM, "--devices", "cpu-testbed", "--budget", "3", "--out", str(tmp_path)])
    capsys.readouterr()
    placement = str(tmp_path / "tiny-window-seed0.json")
    assert main(["evaluate", "--model", "tiny", placement, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["n_submodels"] == values["n_submodels_expected"]


@pytest.mark.parametrize("start", ["script", "module"])
def test_modules_of_the_users_folder_are_found_and_hide_none(start: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    for name in ("agents/__init__.py", "colorsys.py"):
        (tmp_path / name).write_text("raise ImportError('the wrong one')\n")
    (tmp_path / "mine.py").write_text("import colorsys\nfrom agents.static import random\n")
    (tmp_path / "study.yaml").write_text(
        "env: DevicePlacementSim-v0\nmodels: [tiny]\nbudget: 2\n"
        "agents: ['mine:random', 'mine:missing']\n"
    )
    script = tmp_path / "bin" / "placement-gym"
    script.parent.mkdir()
    script.write_text("import sys\nfrom placement_gym.cli.main import main\nsys.exit(main())\n")
    command = [str(script)] if start == "script" else ["-m", "placement_gym"]
    done = subprocess.run(
        [sys.executable, *command, "bench", "run", "study.yaml", "--out", "results", "--trust"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("placement-gym: ")]
    assert "cannot import 'mine:missing': module 'mine' has no attribute 'missing'" in line
    assert f"'mine' was imported from {tmp_path / 'mine.py'}" in line


def test_a_terminal_that_lacks_a_character_shows_a_question_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(shown, encoding="ascii"))
    monkeypatch.setattr("placement_gym.cli.lists.run_models", lambda options: print("≤ 1 %") or 0)
    assert main(["models"]) == 0
    assert shown.getvalue() == b"? 1 %\n"


def test_the_console_script_is_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["placement-gym", "--version"])
    monkeypatch.setattr("signal.signal", lambda *_: None)  # of the tests' own process
    (script,) = entry_points(group="console_scripts", name="placement-gym")
    assert script.value == "placement_gym_command:main"
    with pytest.raises(SystemExit, match="0"):
        script.load()()
    assert capsys.readouterr().out.strip() == version("placement-gym") == placement_gym.__version__
