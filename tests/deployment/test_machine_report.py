"""The report of a machine, which others read."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from placement_gym.base.errors import EngineError
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


def test_report_is_one_file_without_paths_or_names(tmp_path: Path, quick_parts: None) -> None:
    file = tmp_path / "report.json"
    report_machine(file, "cpu-testbed", ["tiny"], quiet=True)
    text = file.read_text()
    report = json.loads(text)
    assert report["devices"][0]["properties"]["FULL_DEVICE_NAME"]
    assert report["check tiny"]["devices"][0]["confirmed"]
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
