# White-box tests of bench.run
"""Result rows and their file."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import openvino as ov
import pytest
from disks import full_disk

from placement_gym.base import FileError, PlacementGymWarning, UserError, to_plain
from placement_gym.bench.run import AgentSpec, BenchEnv, run_agent
from placement_gym.bench.run import rows as rows_file


def test_values_that_are_not_finite_become_null() -> None:
    assert to_plain({"a": [float("nan"), 1.0], "b": float("inf")}) == {"a": [None, 1.0], "b": None}


def test_rows_carry_what_made_them(bench_env: BenchEnv) -> None:
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=4, budget=2)
    values = row.to_json()
    assert values["versions"]["openvino"] == ov.__version__.split("-")[0]
    assert values["model_fingerprint"] == bench_env.base.problem.units.graph.fingerprint()
    assert (values["seed"], values["budget"]) == (4, 2)


def test_rows_carry_what_devices_hold_beside_what_was_placed(
    bench_env: BenchEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = bench_env.base.backend.remeasure
    monkeypatch.setattr(
        bench_env.base.backend,
        "remeasure",
        lambda placements: [replace(one, held_bytes=(None, 7)) for one in measure(placements)],
    )
    made, _ = run_agent(bench_env, AgentSpec("window"), seed=0, budget=2)
    read = keyed(made.to_json(), "a")
    assert read["held_bytes"] == [None, 7]
    assert sum(read["memory_bytes"]) == bench_env.base.problem.unit_bytes.sum() > 0


@pytest.fixture
def row(bench_env: BenchEnv) -> rows_file.Json:
    made, _ = run_agent(bench_env, AgentSpec("random"), seed=0, budget=2)
    return made.to_json()


def keyed(row: rows_file.Json, name: str) -> rows_file.Json:
    """The row as one of a study, of a run with a seed of its own."""
    own = {key: one for key, one in row["env_kwargs"].items() if key not in ("model", "devices")}
    problem = json.dumps([row["env"], own, row["env_kwargs"]["model"], None])
    scored = {"score_on": {}, "scored_ms": None, "scored_speedup": None}
    values = {"key": "", "problem": problem, **scored, **row, "seed": ord(name)}
    return rows_file.parse_row(json.dumps(values).encode())


def names_of(rows: list[rows_file.Json]) -> str:
    return "".join(chr(row["seed"]) for row in rows)


def test_removed_rows_leave_the_others_as_they_are(row: rows_file.Json, tmp_path: Path) -> None:
    path = tmp_path / rows_file.ROWS
    for key in "abc":
        rows_file.append_row(path, keyed(row, key))
    before = path.read_text().splitlines()
    rows_file.remove_rows(tmp_path, [keyed(row, "b")["key"]])
    assert path.read_text().splitlines() == [before[0], before[2]]


def test_a_torn_last_line_costs_no_other_row(row: rows_file.Json, tmp_path: Path) -> None:
    path = tmp_path / rows_file.ROWS
    rows_file.append_row(path, keyed(row, "a"))
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    rows_file.append_row(path, keyed(row, "a"))
    assert path.read_text() == whole * 2


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"{broken", "invalid JSON"),
        (b"[1, 2]", "needs an object"),
        (b'{"key": "a"}', "'agent' is missing"),
        (b"\xff\xfe\x00", "invalid JSON"),
        (b"[" * 100_000, "recursion limit"),
    ],
)
def test_a_damaged_line_is_left_out_and_named(
    line: bytes, fault: str, row: rows_file.Json, tmp_path: Path
) -> None:
    path = tmp_path / rows_file.ROWS
    rows_file.append_row(path, keyed(row, "a"))
    path.write_bytes(path.read_bytes() + line + b"\n")
    rows_file.append_row(path, keyed(row, "b"))
    with pytest.warns(PlacementGymWarning, match=f"1 damaged line.*line 2: .*{fault}"):
        rows = rows_file.load_runs(path)
    assert names_of(rows) == "ab"
    rows_file.remove_rows(tmp_path, [rows[0]["key"]])
    assert path.read_bytes().splitlines()[0] == line


def test_a_row_with_a_wrong_field_is_damaged(row: rows_file.Json, tmp_path: Path) -> None:
    path = tmp_path / rows_file.ROWS
    changes: list[dict[str, Any]] = [
        *({"latency_ms": "fast"}, {"curve": [[1]]}, {"problem": "[1, 2]"}, {"seed": 0.5}),
        *({"latency_ms": 0.0}, {"placement": None}, {"repaired": "y"}, {"infeasible": -1}),
        *({"curve": [[None, 1.0, 1.0]]}, {"speedup": None}, {"warning": 1}),
        # what tables would print as inf, -inf or 11529215046068469760%
        *({"wall_s": 1e308}, {"wall_s": -1.0}, {"infeasible": 2**62}, {"repaired": 3}),
        *({"speedup": 1e300}, {"latency_ms": 1e300}, {"noise": 1e300}, {"interference": 1.5}),
        *({"commit": "trust me"}, {"time": "now"}, {"env": "DevicePlacement-v0"}),
        {"env_kwargs": row["env_kwargs"] | {"schedule": "event"}},
        {"env_kwargs": row["env_kwargs"] | {"model": "other.xml"}},
    ]
    for change in changes:
        wrong = keyed(row, "a") | change
        with pytest.raises(FileError, match="would not be read again"):
            rows_file.append_row(path, wrong)
        with path.open("a") as file:
            file.write(json.dumps(wrong) + "\n")
    with pytest.warns(PlacementGymWarning, match=r"24 damaged line.*'latency_ms'.*'curve"):
        assert rows_file.load_runs(path) == []


def test_rows_are_told_apart_by_what_was_run_not_by_what_they_say(row: rows_file.Json) -> None:
    true = keyed(row, "a")
    problem = true["problem"].replace(", ", ",  ")
    false = true | {"key": "0" * 16, "label": "search", "problem": problem}
    assert rows_file.parse_row(json.dumps(false).encode()) == true


def test_a_full_disk_costs_the_new_row_alone(row: rows_file.Json, tmp_path: Path) -> None:
    path = tmp_path / rows_file.ROWS
    rows_file.append_row(path, keyed(row, "a"))
    before = path.read_bytes()
    with full_disk(len(before) + 100), pytest.raises(FileError, match=r"results\.jsonl"):
        rows_file.append_row(path, keyed(row, "b"))
    assert names_of(rows_file.load_runs(path)) == "a"
    rows_file.append_row(path, keyed(row, "c"))
    assert names_of(rows_file.load_runs(path)) == "ac"
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize("name", [rows_file.LOCK, rows_file.ROWS])
def test_folder_whose_rows_would_go_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    victim, folder = tmp_path / "bashrc", tmp_path / "out"
    victim.write_text("good")
    folder.mkdir()
    (folder / name).symlink_to("../bashrc")
    with pytest.raises(UserError, match="is a link"), rows_file.lock_folder(folder):
        pass
    assert victim.read_text() == "good"


def test_published_rows_are_read_compressed_and_added_to(
    row: rows_file.Json, tmp_path: Path
) -> None:
    rows = [keyed(row, key) for key in "abc"]
    packed = "".join(json.dumps(one) + "\n" for one in rows[:2]).encode()
    (tmp_path / rows_file.PACKED_ROWS).write_bytes(lzma.compress(packed))
    assert rows_file.load_runs(tmp_path) == rows[:2]
    rows_file.append_row(tmp_path / rows_file.ROWS, rows[2])
    assert rows_file.load_runs(tmp_path) == rows


def test_a_published_run_that_failed_is_replaced_by_a_later_one(
    row: rows_file.Json, tmp_path: Path
) -> None:
    failed, done = (keyed(row, "a") | {"error": error} for error in ("no power", ""))
    packed = (json.dumps(failed) + "\n").encode()
    (tmp_path / rows_file.PACKED_ROWS).write_bytes(lzma.compress(packed))
    rows_file.append_row(tmp_path / rows_file.ROWS, done)
    assert rows_file.load_runs(tmp_path) == [done]


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    for content in (b"not xz", lzma.compress(b"{}" * 1000)[:60], lzma.compress(b"") + b"x"):
        (tmp_path / rows_file.PACKED_ROWS).write_bytes(content)
        with pytest.raises(UserError, match=r"results\.jsonl\.xz is damaged"):
            rows_file.load_runs(tmp_path)


def test_no_more_is_unpacked_than_a_study_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_file, "MAX_UNPACKED_BYTES", 1000)
    (tmp_path / rows_file.PACKED_ROWS).write_bytes(lzma.compress(b"\n" * 2**22))
    with pytest.raises(FileError, match="more than 1000 bytes once unpacked"):
        rows_file.load_runs(tmp_path)


def test_blank_lines_cost_nothing(row: rows_file.Json, tmp_path: Path) -> None:
    path = tmp_path / rows_file.PACKED_ROWS
    path.write_bytes(lzma.compress(b"\n" * 2**20 + json.dumps(keyed(row, "a")).encode() + b"\n"))
    assert rows_file.load_runs(path) == [keyed(row, "a")]
