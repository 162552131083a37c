"""Ctrl-C: what is kept, and how to go on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from placement_gym.base import IMPORT_ROOT
from placement_gym.cli import main

SIM = ["--env", "DevicePlacementSim-v0", "--model", "tiny"]


def interrupt(*args: Any, **kwargs: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("typed", "target", "kept"),
    [
        ("compare -m tiny", "bench.compare", "rerun the command"),
        ("plan -m tiny", "deployment.plan", "profile is kept"),
        ("fidelity -m tiny", "deployment.fidelity", "profile is kept"),
        ("profile -m tiny", "deployment.profile", "measure again"),
        ("evaluate x.json", "deployment.evaluate_placement", "nothing is kept"),
        ("bench run mismatch --out OUT", "bench.study.run_study", "are kept; rerun"),
        ("bench report paper --out OUT", "bench.report.report_study", "in OUT/ are kept"),
        ("bench validate --out OUT", "bench.study.validate", "in OUT are kept"),
    ],
)
def test_an_interrupt_says_what_is_kept(
    typed: str,
    target: str,
    kept: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(f"placement_gym.{target}", interrupt)
    assert main(typed.split()) == 130
    error = capsys.readouterr().err.splitlines()
    assert re.match(f"placement-gym: interrupted: .*{kept}", error[-1])


@pytest.mark.parametrize("error", [SystemError, ImportError])
def test_an_interrupt_of_compiled_code_is_an_interrupt(
    error: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Numba's functions end with the one, OpenVINO's import with the other; both have a cause."""

    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise error("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr("placement_gym.deployment.plan", interrupted)
    assert main(["plan", "-m", "tiny"]) == 130
    assert "interrupted" in capsys.readouterr().err
    monkeypatch.setattr("placement_gym.bench.run.agent_run.run_search", interrupted)
    assert main(["compare", *SIM, "--agents", "prefix", "--out", str(tmp_path)]) == 130


def test_an_interrupt_that_knows_more_is_believed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt("3 of 8 runs are in OUT")

    monkeypatch.setattr("placement_gym.bench.study.run_study", interrupted)
    assert main(["bench", "run", "mismatch", "--out", "OUT"]) == 130
    assert capsys.readouterr().err.endswith("interrupted: 3 of 8 runs are in OUT\n")


def test_an_interrupted_comparison_prints_what_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**kwargs: Any) -> dict[str, Any]:
        return {"rows": [], "interrupted": "no run has ended; rerun the command"}

    monkeypatch.setattr("placement_gym.bench.compare", interrupted)
    assert main(["compare", *SIM, "--out", str(tmp_path)]) == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "placement-gym: interrupted: no run has ended; rerun the command\n"


@pytest.mark.parametrize("moment", ["import", "end"])
def test_the_script_is_interrupted_at_any_time_alike(moment: str, tmp_path: Path) -> None:
    interrupt = f"import os\nos.kill(os.getpid(), {signal.SIGINT:d})\n"
    if moment == "import":
        (tmp_path / "gymnasium.py").write_text(interrupt)
    code = (
        "import sys\nfrom placement_gym_command import main\n"
        f"status = main()\n{interrupt}sys.exit(status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "models"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(IMPORT_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    expected = 130 if moment == "import" else 0
    assert done.returncode == expected, done.stderr
    assert "Traceback" not in done.stderr


def test_interrupted_before_the_first_run_names_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("placement_gym.bench.run.agent_run.run_search", interrupt)
    assert main(["compare", *SIM, "--agents", "prefix", "--out", str(tmp_path)]) == 130
    printed = capsys.readouterr()
    assert printed.err.endswith("interrupted: no run has ended; rerun the command to start again\n")
    assert "are in" not in printed.out
