"""Replaying the rows of a study."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import read_rows

from placement_gym.backends.protocol import Measurement
from placement_gym.bench.run.finalists import Finalist
from placement_gym.bench.study.replay import compare_measurements, validate
from placement_gym.bench.study.runner import run_study
from placement_gym.bench.study.spec import Study


def test_true_rows_are_valid(folder: Path) -> None:
    assert not [verdict for verdict in validate(folder) if verdict.error]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latency_ms": 0.9}, "now"),
        ({"latency_ms": 1 + 1e-6}, "now"),
        ({"evaluations": 31}, "exceed"),
        ({"model_fingerprint": "0"}, "has changed"),
        ({"seed": 7}, "key"),
        ({"speedup_vs_best_single": 9.0}, "speedup_vs_best_single was 9"),
        ({"placement": None, "latency_ms": None}, "neither"),
        ({"env_kwargs": {"model": "gone.xml"}}, "cannot be replayed"),
    ],
)
def test_a_row_that_was_changed_is_not_valid(
    change: dict[str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    row = next(row for row in read_rows(folder) if row["agent"] == "annealing")
    changed = row | change
    if change.get("latency_ms"):
        changed["latency_ms"] = row["latency_ms"] * change["latency_ms"]
    (tmp_path / "results.jsonl").write_text(json.dumps(changed) + "\n")
    (verdict,) = validate(tmp_path)
    assert message in verdict.error


def test_another_placement_does_not_have_the_rows_latency(folder: Path, tmp_path: Path) -> None:
    row = next(row for row in read_rows(folder) if row["agent"] == "min-cut")
    swapped = {
        unit: "CPU" if device == "GPU" else "GPU" for unit, device in row["placement"].items()
    }
    (tmp_path / "results.jsonl").write_text(json.dumps(row | {"placement": swapped}) + "\n")
    (verdict,) = validate(tmp_path)
    assert "now" in verdict.error


def test_a_row_that_appears_twice_is_not_valid(folder: Path, tmp_path: Path) -> None:
    line = json.dumps(read_rows(folder)[0]) + "\n"
    (tmp_path / "results.jsonl").write_text(line * 2)
    assert [bool(verdict.error) for verdict in validate(tmp_path)] == [False, True]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_measured_rows_hold_within_noise(tmp_path: Path) -> None:
    measured = Study.of(
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
    row = {"speedup_vs_best_single": 1.2, "noise": 0.02}
    again = Measurement(latency_ms=1.0, reference_ms=1.2 * 1.07, noise=0.02)
    assert compare_measurements(row, Finalist(np.zeros(1, np.int64), again, 1.0)) == ""
    slower = replace(again, reference_ms=1.2 * 1.09)
    disagreement = compare_measurements(row, Finalist(np.zeros(1, np.int64), slower, 1.0))
    assert disagreement == "speedup_vs_best_single was 1.200 and is now 1.308"
