"""Result rows and their file."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import openvino as ov
import pytest

from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.errors import UserError


def test_a_torn_last_line_costs_no_other_row(bench_env: BenchEnv, tmp_path: Path) -> None:
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=0, budget=2)
    path = tmp_path / "results.jsonl"
    rows_file.append_row(path, row.to_json())
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    rows_file.append_row(path, row.to_json())
    assert path.read_text() == whole * 2


def test_values_that_are_not_finite_become_null() -> None:
    assert rows_file.to_plain({"a": [float("nan"), 1.0], "b": float("inf")}) == {
        "a": [None, 1.0],
        "b": None,
    }


def test_rows_carry_what_made_them(bench_env: BenchEnv) -> None:
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=4, budget=2)
    values = row.to_json()
    assert values["versions"]["openvino"] == ov.__version__.split("-")[0]
    assert values["model_fingerprint"] == bench_env.base.problem.units.graph.fingerprint()
    assert (values["seed"], values["budget"]) == (4, 2)


def test_removed_rows_leave_the_others_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / rows_file.ROWS
    for key in "abc":
        rows_file.append_row(path, {"key": key, "value": 0.1})
    before = path.read_text().splitlines()
    rows_file.remove_rows(tmp_path, ["b"])
    assert path.read_text().splitlines() == [before[0], before[2]]


def test_a_line_that_is_not_json_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / rows_file.ROWS
    path.write_text(json.dumps({"key": "a"}) + "\n{broken\n")
    with pytest.raises(ValueError, match=r"results\.jsonl, line 2 is not valid JSON"):
        rows_file.load_rows(path)


def test_published_rows_are_read_compressed_and_added_to(tmp_path: Path) -> None:
    rows = [{"key": key, "error": "", "value": 0.1} for key in "abc"]
    packed = "".join(json.dumps(row) + "\n" for row in rows[:2]).encode()
    (tmp_path / rows_file.PACKED_ROWS).write_bytes(lzma.compress(packed))
    assert rows_file.load_runs(tmp_path) == rows[:2]
    rows_file.append_row(tmp_path / rows_file.ROWS, rows[2])
    assert rows_file.load_runs(tmp_path) == rows


def test_a_published_run_that_failed_is_replaced_by_a_later_one(tmp_path: Path) -> None:
    failed, done = ({"key": "a", "error": error} for error in ("no power", ""))
    packed = (json.dumps(failed) + "\n").encode()
    (tmp_path / rows_file.PACKED_ROWS).write_bytes(lzma.compress(packed))
    rows_file.append_row(tmp_path / rows_file.ROWS, done)
    assert rows_file.load_runs(tmp_path) == [done]


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    (tmp_path / rows_file.PACKED_ROWS).write_bytes(b"not xz")
    with pytest.raises(UserError, match=r"results\.jsonl\.xz is damaged"):
        rows_file.load_runs(tmp_path)
