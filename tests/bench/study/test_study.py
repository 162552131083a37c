# White-box tests of bench.run, bench.study
"""Studies: rows, resuming, and what becomes of failures."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from disks import full_disk
from studies import VALUES, study, timeless, write_rows

from placement_gym.base import FileError, warn_user
from placement_gym.bench import compare
from placement_gym.bench.run import BenchEnv, BenchEnvs, load_agent
from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.study import describe_study, run_serially, run_study, run_task, validate
from placement_gym.bench.study.worker import make_failed_row
from placement_gym.cli import main
from placement_gym.envs import placement_env

SIM = "DevicePlacementSim-v0"


@pytest.fixture
def envs() -> Iterator[BenchEnvs]:
    with BenchEnvs() as opened:
        yield opened


def test_every_run_is_a_row_and_none_is_done_twice(tmp_path: Path) -> None:
    rows = run_study(study(), tmp_path, "serial", quiet=True)
    written = (tmp_path / "results.jsonl").read_bytes()
    assert [row["key"] for row in rows] == [task.key for task in study().tasks()]
    assert all(row["latency_ms"] and not row["error"] for row in rows)
    assert run_study(study(), tmp_path, "serial", quiet=True) == rows
    assert (tmp_path / "results.jsonl").read_bytes() == written
    more = run_study(study(seeds=4), tmp_path, "serial", quiet=True)
    assert len(more) == 4 * 6
    assert (tmp_path / "results.jsonl").read_bytes().startswith(written)


def test_a_torn_line_is_done_again(tmp_path: Path) -> None:
    whole = run_study(study(), tmp_path, "serial", quiet=True)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert len(rows_file.load_runs(path)) == len(whole) - 1
    again = run_study(study(), tmp_path, "serial", quiet=True)
    assert timeless(again) == timeless(whole)
    assert len(rows_file.load_runs(path)) == len(whole)


def test_a_full_disk_ends_the_study_which_continues_later(tmp_path: Path) -> None:
    small = study(models=["tiny"], seeds=1)
    with full_disk(4000), pytest.raises(FileError, match=r"cannot write .*results\.jsonl"):
        run_study(small, tmp_path, "serial", quiet=True)
    kept = rows_file.load_runs(tmp_path)
    assert 0 < len(kept) < 3
    assert run_study(small, tmp_path, "serial", quiet=True)[: len(kept)] == kept


def test_environment_that_cannot_be_remade_is_an_error_row(envs: BenchEnvs) -> None:
    row = run_task(study(models=["no-such-model"]).tasks()[0], envs)
    assert "no-such-model" in row["error"]
    assert row["label"] == "random"


def test_failed_runs_are_done_again_only_if_asked(tmp_path: Path) -> None:
    path, (first, *others) = tmp_path / rows_file.ROWS, study(models=["tiny"], seeds=1).tasks()
    small = study(models=["tiny"], seeds=1)
    rows_file.append_row(path, make_failed_row(first, "no power"))
    assert [row["error"] for row in run_study(small, tmp_path, "serial", quiet=True)] == [
        "no power",
        *("" for _ in others),
    ]
    assert "3 runs of at most 12 evaluations, 3 already done" in describe_study(small, tmp_path)
    assert "2 already done" in describe_study(small, tmp_path, retry_failed=True)
    again = run_study(small, tmp_path, "serial", retry_failed=True, quiet=True)
    assert not any(row["error"] for row in again)
    assert len(path.read_text().splitlines()) == 4
    assert len(rows_file.load_runs(tmp_path)) == 3
    assert not [verdict for verdict in validate(tmp_path, True) if verdict.error]


def test_a_comparison_is_a_study_of_one_problem(tmp_path: Path) -> None:
    document = compare("tiny", ["random"], SIM, "hsdag-paper", budget=12, out=tmp_path, quiet=True)
    small = study(models=["tiny"], agents=["random", "random-blocks"], seeds=1)
    rows = run_study(small, tmp_path, "serial", quiet=True)
    assert rows[0]["key"] == document["rows"][-1]["key"]
    assert len(rows_file.load_runs(tmp_path)) == len(document["rows"]) + 1
    assert not [replay for replay in validate(tmp_path, True) if replay.error]
    again = compare("tiny", ["random"], SIM, "hsdag-paper", budget=12, out=tmp_path, quiet=True)
    assert again["rows"] == document["rows"]
    assert again["resumed"] == len(document["rows"])


def test_two_processes_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with rows_file.lock_folder(tmp_path), pytest.raises(ValueError, match="another process"):
        run_study(study(), tmp_path, "serial", quiet=True)


def test_what_cannot_be_scored_elsewhere_keeps_its_row(envs: BenchEnvs) -> None:
    elsewhere = study(models=["tiny"], score_on={"devices": "cpu+igpu+npu"}, agents=["random"])
    task = replace(elsewhere.tasks()[0], devices="cpu+2dgpu", score_on={"devices": "cpu+igpu"})
    row = run_task(replace(task, agent="single-device", kwargs={"device": "GPU.1"}), envs)
    assert row["latency_ms"]
    assert row["scored_ms"] is None
    assert "scored elsewhere" in row["error"]


def test_an_agent_that_is_an_object_is_taken_as_it_is(envs: BenchEnvs) -> None:
    task = study(models=["tiny"], agents=["fatal_agent:HARMLESS"]).tasks()[0]
    row = run_task(task, envs)
    assert row["error"] == ""
    assert row["evaluations"] == 1


def test_a_prediction_is_one_episode(envs: BenchEnvs) -> None:
    task = study(models=["tiny"], agents=["fatal_agent:secretive"], budget=3).tasks()[0]
    assert "BudgetReached" in run_task(task, envs)["error"]


def test_an_episode_that_is_longer_than_the_budget_holds(tmp_path: Path) -> None:
    one_by_one = study(
        env="DevicePlacementPerUnitSim-v0", models=["resnet"], agents=["single-device"], budget=2
    )
    rows = run_study(one_by_one, tmp_path, "serial", quiet=True)
    assert all(row["evaluations"] > 2 and row["latency_ms"] for row in rows)
    assert not [verdict for verdict in validate(tmp_path, True) if verdict.error]


def test_the_command_runs_a_study_and_a_dry_run_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "study.yaml", tmp_path / "out"
    file.write_text(json.dumps(VALUES | {"models": ["tiny"], "seeds": 1}))
    assert main(["bench", "run", str(file), "--out", str(out), "--dry-run"]) == 0
    assert not out.exists()
    assert main(["bench", "run", str(file), "--out", str(out), "--executor", "serial"]) == 0
    assert "3 rows" in capsys.readouterr().out
    assert main(["bench", "run", str(tmp_path / "none.yaml"), "--out", str(out)]) == 2


def test_only_warnings_of_this_package_are_shown(envs: BenchEnvs) -> None:
    def warn(env: gym.Env[Any, Any], seed: int) -> Any:
        warnings.warn("of a library", UserWarning, stacklevel=1)
        warn_user("of this package")
        return load_agent("single-device")(env, seed)

    (task, *_) = study(models=["tiny"], agents=["warn"]).tasks()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert run_task(task, envs, {"warn": warn})["error"] == ""
    assert [str(one.message) for one in shown] == ["of this package"]


def test_finalists_are_scored_once_more_elsewhere(tmp_path: Path) -> None:
    elsewhere = {"schedule": "placeto", "devices": "cpu+igpu"}
    changed = study(models=["inception"], devices=["cpu+dgpu"], agents=["random-blocks"])
    changed = replace(changed, score_on=elsewhere)
    rows = run_study(changed, tmp_path, "serial", quiet=True)
    other = gym.make("placement_gym:DevicePlacementSim-v0", model="inception", **elsewhere)
    other.reset()
    problem = placement_env(other).problem
    for row in rows:
        devices = [problem.device_names.index(row["placement"][u]) for u in problem.units.names]
        *_, info = other.step(np.array(devices))
        assert row["scored_ms"] == pytest.approx(info["latency_ms"])
        assert row["scored_ms"] != pytest.approx(row["latency_ms"])
    plain = replace(changed, score_on={})
    assert {task.key for task in plain.tasks()}.isdisjoint(row["key"] for row in rows)


def test_a_score_elsewhere_that_was_changed_does_not_hold(tmp_path: Path) -> None:
    small = {"models": ["tiny"], "agents": ["random-blocks"], "seeds": 1}
    scored = study(**small, score_on={"schedule": "placeto"})
    (row,) = run_study(scored, tmp_path / "true", "serial", quiet=True)
    false = write_rows(tmp_path / "false", [row | {"scored_ms": 1.1 * row["scored_ms"]}])
    (kept,), (spoiled,) = (validate(out, True) for out in (tmp_path / "true", false))
    assert kept.error == ""
    assert "scored_ms" in spoiled.error


def test_a_comparison_shares_measurements_within_a_seed_only(
    envs: BenchEnvs, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[str] = []
    monkeypatch.setattr(BenchEnv, "clear_caches", lambda bench_env: cleared.append("cleared"))
    first, second = study(models=["tiny"], agents=["single-device"], seeds=2).tasks()
    for share, expected in ((True, 2), (False, 4)):
        cleared.clear()
        tasks = (first, first, second, second)
        assert len([*run_serially(tasks, lambda _: None, envs, share_within_seed=share)]) == 4
        assert len(cleared) == expected
