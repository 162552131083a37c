"""Rows that are published: small, and the same on every machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from disks import full_disk
from published import DATA
from studies import REPORTED, read_rows, study

from placement_gym.base.errors import UserError
from placement_gym.base.files import FileError
from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.study.replay import publish_rows, validate
from placement_gym.bench.study.runner import run_study
from placement_gym.cli.main import main


def test_published_rows_are_those_of_the_study_in_its_order(folder: Path, tmp_path: Path) -> None:
    part = replace(REPORTED, agents=["annealing", "min-cut"], seeds=[2, 0, 5])
    path, missing = publish_rows(part, folder, tmp_path)
    rows = rows_file.load_rows(path)
    by_key = {row["key"]: row for row in read_rows(folder)}
    keys = [task.key for task in part.tasks() if task.key in by_key]
    assert [row["key"] for row in rows] == keys
    assert missing == 2 * 2
    assert path.stat().st_size < sum(len(json.dumps(by_key[key])) for key in keys) / 4


def test_published_rows_name_no_machine_and_replay_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.json").write_bytes(
            (DATA / "latency-inputs/LayerGraphs/bert24_inference.json").read_bytes()
        )
    monkeypatch.setenv("NETS", str(tmp_path / "here"))
    small = study(
        models=["${NETS}/net.json"],
        devices=["1cpu+1acc@0.5"],
        agents=["random-blocks", "heft"],
        seeds=1,
    )
    run_study(small, tmp_path / "ran", "serial", quiet=True)
    path, missing = publish_rows(small, tmp_path / "ran", tmp_path / "published")
    assert missing == 0
    rows = rows_file.load_rows(path)
    assert str(tmp_path) not in json.dumps(rows)
    assert {row["host"] for row in rows} == {""}
    (tmp_path / "here" / "net.json").unlink()
    monkeypatch.setenv("NETS", str(tmp_path / "there"))
    assert [replay.error for replay in validate(tmp_path / "published", quiet=True)] == ["", ""]
    monkeypatch.delenv("NETS")
    errors = [replay.error for replay in validate(tmp_path / "published", quiet=True)]
    assert all("set the variable NETS" in error for error in errors)


def test_a_full_disk_leaves_the_rows_that_were_published(folder: Path, tmp_path: Path) -> None:
    path, _ = publish_rows(REPORTED, folder, tmp_path)
    before = path.read_bytes()
    with full_disk(100), pytest.raises(FileError, match=r"results\.jsonl\.xz"):
        publish_rows(REPORTED, folder, tmp_path)
    assert path.read_bytes() == before


def test_a_study_without_results_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run it first"):
        publish_rows(REPORTED, tmp_path, tmp_path)


def test_the_command_publishes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(json.dumps(vars(REPORTED)))
    words = ["bench", "publish", str(file), "--out", str(folder), "--to", str(tmp_path)]
    assert main(words) == 0
    assert "0 runs of the study are missing" in capsys.readouterr().out
    assert len(rows_file.load_runs(tmp_path)) == 30
