# White-box tests of cli
"""Paths that cannot be, and standard streams that are closed or full."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from placement_gym.base import FittedText
from placement_gym.cli import main
from placement_gym.cli.tables import print_result
from placement_gym.view import figures

LONG = "n" * 256
SIM = ["--env", "DevicePlacementSim-v0", "--model", "tiny"]


@pytest.mark.parametrize(
    "words",
    [
        ["compare", *SIM, "--out", LONG],
        ["compare", *SIM, "--devices", f"{LONG}.json", "--out", "OUT"],
        ["plan", "-m", "tiny", "--out", LONG],
        ["plan", "-m", "tiny", "--export", LONG, "--out", "OUT"],
        ["check", "-m", "tiny", "--out", LONG],
        ["profile", "-m", "tiny", "--out", f"{LONG}.json"],
        ["profile", "-m", "tiny", "--out", f"{LONG}/costs.json"],
        ["fidelity", "-m", "tiny", "--out", LONG],
        ["evaluate", f"{LONG}.json"],
        ["export", f"{LONG}.json", "--out", "OUT"],
        ["view", LONG],
        ["view", "x.json", "--out", f"{LONG}.html"],
        ["view", "x.json", "--picture", f"{LONG}.png"],
        ["bench", "run", "mismatch", "--out", LONG],
    ],
    ids=lambda words: " ".join(word.replace(LONG, "LONG") for word in words),
)
def test_a_name_that_is_too_long_is_the_users_error(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("placement-gym: cannot ")
    assert "File name too long" in line


@pytest.mark.parametrize("words", [["models"], ["models", "--json"], ["--version"], ["--help"]])
def test_a_full_standard_output_is_said_in_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words) == 2
    assert capsys.readouterr().err.splitlines() == [
        "placement-gym: the system refuses: No space left on device"
    ]


def test_a_full_standard_error_changes_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(_: argparse.Namespace) -> int:
        print("warning", file=sys.stderr, flush=True)
        return 0

    with open("/dev/full", "w", buffering=1) as full:  # noqa: PTH123
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["evaluate", "none.json"]) == 2
        monkeypatch.setattr(sys.modules[main.__module__], "run", warn)
        assert main(["models"]) == 0
        full.write("as when Python ends\n")


def test_closed_standard_streams_are_those_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["models", "--json"]) == 0
    assert main(["evaluate", "none.json"]) == 2


def test_pictures_that_are_not_drawn_are_not_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"Rows, table{{}} and placements are in {tmp_path}/\n"
    words = ["compare", *SIM, "--agents", "prefix", "--budget", "2", "--out", str(tmp_path)]
    for note, pictures in (("", ", pictures"), ("it could not be drawn: disk full", "")):
        monkeypatch.setattr(figures, "draw_if_possible", lambda *_, note=note: note)
        assert main(words) == 0
        assert said.format(pictures) in capsys.readouterr().out


def test_a_path_that_is_longer_than_a_line_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/".join(["folder"] * 40)
    options = argparse.Namespace(json=False, verbose=False)
    print_result(options, {}, lambda: FittedText(f"The cost table is {path}"))
    assert path in capsys.readouterr().out
