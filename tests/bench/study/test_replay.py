# White-box tests of bench.run, bench.study
"""Replaying the rows of a study, and publishing them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published_workloads import DATA
from studies import REPORTED, read_rows, study, write_rows

from placement_gym.backends import Finalist, Measurement
from placement_gym.base import UserError
from placement_gym.bench.run import read_make_kwargs
from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.study import Study, publish_rows, run_study, validate
from placement_gym.bench.study.row_checks import compare_measurements


def test_true_rows_are_valid(folder: Path) -> None:
    assert not [verdict for verdict in validate(folder) if verdict.error]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latency_ms": 0.9}, "now"),
        ({"latency_ms": 1 + 1e-6}, "now"),
        ({"evaluations": 31}, "exceed"),
        ({"evaluations": 0, "repaired": 0, "infeasible": 0}, "no evaluation"),
        ({"model_fingerprint": "0"}, "its model is not"),
        ({"devices": []}, "its devices are not"),
        ({"speedup_vs_best_single": 9.0}, "speedup_vs_best_single was 9"),
        ({"placement": None, "latency_ms": None}, "neither"),
        ({"greedy_speedup": 9.0}, "greedy_speedup was 9"),
        ({"latency_p90_ms": 0.5}, "latency_p90_ms was 0.5"),
        ({"n_submodels": 99}, "n_submodels was 99"),
        ({"beats_best_single": "maybe"}, "beats_best_single was maybe"),
        ({"noise": 3.0}, "noise was 3"),
        ({"placement": {"a": "CPU"}}, "cannot be replayed"),
        ({"env_kwargs": {"model": "gone.xml"}}, "not that of its problem"),
    ],
)
def test_a_row_that_was_changed_is_not_valid(
    change: dict[str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    row = next(row for row in read_rows(folder) if row["agent"] == "annealing")
    changed = row | change
    if change.get("latency_ms"):
        changed["latency_ms"] = row["latency_ms"] * change["latency_ms"]
    (verdict,) = validate(write_rows(tmp_path, [changed]))
    assert message in verdict.error


def test_a_row_loads_no_library(folder: Path, tmp_path: Path) -> None:
    row, *_ = read_rows(folder)
    problem = json.loads(row["problem"])
    problem[1]["extension"] = row["env_kwargs"]["extension"] = "lib.so"
    row["problem"] = json.dumps(problem)
    (verdict,) = validate(write_rows(tmp_path, [row]))
    assert "a library of operators" in verdict.error
    assert "extension" not in read_make_kwargs(row)


def test_another_placement_does_not_have_the_rows_latency(folder: Path, tmp_path: Path) -> None:
    row = next(row for row in read_rows(folder) if row["agent"] == "min-cut")
    swapped = {
        unit: "CPU" if device == "GPU" else "GPU" for unit, device in row["placement"].items()
    }
    swapped_row = row | {"placement": swapped}
    (verdict,) = validate(write_rows(tmp_path, [swapped_row]))
    assert "now" in verdict.error


def test_a_row_that_appears_twice_is_not_valid(folder: Path, tmp_path: Path) -> None:
    write_rows(tmp_path, read_rows(folder)[:1] * 2)
    errors = [verdict.error for verdict in validate(tmp_path)]
    assert sorted(errors) == ["", "its run appears twice"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_measured_rows_hold_within_noise(tmp_path: Path) -> None:
    measured = Study.from_dict(
        {
            "env": "DevicePlacement-v0",
            "models": ["tiny"],
            "devices": ["cpu-testbed"],
            "agents": ["single-device", "random-blocks"],
            "seeds": 1,
            "budget": 4,
        }
    )
    done = run_study(measured, tmp_path, quiet=True)
    assert all(row["latency_ms"] for row in done)
    assert not [verdict for verdict in validate(tmp_path) if verdict.error]


def test_two_noisy_measurements_agree_within_their_noise() -> None:
    row = {"speedup_vs_best_single": 1.2, "noise": 0.02, "warning": "", "beats_best_single": "yes"}
    again = Measurement(latency_ms=1.0, reference_ms=1.2 * 1.07, noise=0.02)
    assert compare_measurements(row, Finalist(np.zeros(1, np.int64), again, 1.0)) == ""
    slower = replace(again, reference_ms=1.2 * 1.09)
    disagreement = compare_measurements(row, Finalist(np.zeros(1, np.int64), slower, 1.0))
    assert disagreement == "speedup_vs_best_single was 1.200 and is now 1.308"
    again = Finalist(np.zeros(1, np.int64), again, 1.0)
    assert "by its numbers 'yes'" in compare_measurements(row | {"beats_best_single": "no"}, again)
    vague = row | {"speedup_vs_best_single": 9.0, "noise": 1e6, "beats_best_single": "within noise"}
    assert compare_measurements(vague, again).startswith("speedup_vs_best_single was 9.000")


def test_published_rows_are_those_of_the_study_in_its_order(folder: Path, tmp_path: Path) -> None:
    part = replace(REPORTED, agents=["annealing", "min-cut"], seeds=[2, 0, 5])
    path, missing = publish_rows(part, folder, tmp_path)
    rows = rows_file.load_runs(path)
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
    rows = rows_file.load_runs(path)
    assert str(tmp_path) not in json.dumps(rows)
    assert {row["host"] for row in rows} == {""}
    (tmp_path / "here" / "net.json").unlink()
    monkeypatch.setenv("NETS", str(tmp_path / "there"))
    published = tmp_path / "published"
    assert [replay.error for replay in validate(published)] == ["", ""]
    monkeypatch.setenv("NETS", "a password")
    errors = [replay.error for replay in validate(published)]
    assert all("NETS has to name a folder" in error for error in errors)
    assert "a password" not in "".join(errors)
    monkeypatch.delenv("NETS")
    errors = [replay.error for replay in validate(published)]
    assert all("set the variable NETS" in error for error in errors)


def test_a_study_without_results_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run it first"):
        publish_rows(REPORTED, tmp_path, tmp_path)
