"""The report of a machine, which others read."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path

import pytest

from placement_gym.base.errors import EngineError
from placement_gym.base.progress import progress_bar
from placement_gym.cli.main import main
from placement_gym.deployment import machine_report
from placement_gym.deployment.machine_report import report_machine


@pytest.fixture
def quick_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that measure nothing, of which one fails and names this machine."""

    def fail(*_: object, **__: object) -> None:
        raise EngineError(f"{platform.node()} has no {Path.home()}/.cache")

    monkeypatch.setattr(platform, "node", lambda: "my-own-host")
    for part in ("profile", "fidelity", "plan"):
        monkeypatch.setattr(machine_report, part, lambda *_, **__: {"file": "a/b", "ms": 1.0})
    monkeypatch.setattr(machine_report, "plan", fail)
    monkeypatch.setattr(machine_report, "check", lambda *_, **__: {"confirmed": True})


def test_report_is_one_file_without_paths_or_names(tmp_path: Path, quick_parts: None) -> None:
    file = tmp_path / "report.json"
    report_machine(file, "cpu-testbed", ["tiny"], quiet=True, budget_s=1e4)
    text = file.read_text()
    report = json.loads(text)
    assert report["devices"][0]["properties"]["FULL_DEVICE_NAME"]
    assert report["check tiny"]["confirmed"]
    assert report["fidelity"] == {"ms": 1.0}
    assert report["plan"]["error"].startswith("HIDDEN has no")
    for name in (str(tmp_path), str(Path.home()), str(Path.cwd()), "DEVICE_UUID"):
        assert len(name) < 6 or name not in text


def test_the_command_says_which_part_failed(
    tmp_path: Path, quick_parts: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report-machine", str(tmp_path / "r.json"), "-d", "cpu-testbed", "-m", "tiny", "-q"]
    assert main(words) == 1
    printed = capsys.readouterr().out
    assert "check tiny" in printed
    assert "has no" in printed


def test_a_part_that_takes_too_long_is_stopped_and_said(
    tmp_path: Path, quick_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_end(*_: object, **__: object) -> None:
        with progress_bar(40, "measurements", quiet=True, description="profiling"):
            time.sleep(60.0)

    monkeypatch.setattr(machine_report, "profile", never_end)
    report = report_machine(tmp_path / "r.json", "cpu-testbed", ["a", "b"], quiet=True, budget_s=4)
    assert report["wall_s"] < 20.0
    assert report["profile"]["error"].startswith("stopped at 'profiling: 0 of 40 steps")
    assert "needs the profile" in report["fidelity"]["error"]
    assert report["check b"]["confirmed"]


def test_an_interrupt_leaves_the_parts_that_ended(
    tmp_path: Path, quick_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(machine_report, "plan", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"r\.json has check tiny$"):
        report_machine(tmp_path / "r.json", "cpu-testbed", ["tiny"], quiet=True)
    assert json.loads((tmp_path / "r.json").read_text())["check tiny"]["confirmed"]
