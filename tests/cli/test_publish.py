"""Published rows are replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import read_rows, study, write_rows

from placement_gym.bench.run import PACKED_ROWS, load_runs
from placement_gym.bench.study import run_study
from placement_gym.cli import main


def test_published_rows_that_are_not_valid_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = study(models=["tiny"], agents=["random"], seeds=1, budget=2)
    small.save(tmp_path / "study.yaml")
    out, to = tmp_path / "out", tmp_path / "to"
    words = ["bench", "publish", str(tmp_path / "study.yaml"), "--out", str(out), "--to", str(to)]
    run_study(small, out, "serial", quiet=True)
    assert main([*words, "-q"]) == 0
    printed = capsys.readouterr().out
    assert "latency_ms was" not in printed
    assert "0 runs of the study are missing" in printed
    assert len(load_runs(to)) == 1
    write_rows(out, [row | {"latency_ms": row["latency_ms"] / 2} for row in read_rows(out)])
    assert main([*words, "-q"]) == 1
    printed = capsys.readouterr().out
    (row,) = read_rows(out)
    assert f"random, tiny, seed 0 ({row['key']}): latency_ms was" in printed
    assert str(to / PACKED_ROWS) in printed
