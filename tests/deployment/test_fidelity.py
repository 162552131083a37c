# White-box tests of deployment
"""The fidelity report: what it compares, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import diamond_costs, diamond_problem

from placement_gym.backends.measured import sample_fit_placements
from placement_gym.backends.simulated import build_simulated_problem
from placement_gym.cli import main
from placement_gym.deployment import fidelity
from placement_gym.deployment.prediction_errors import (
    compute_agreement,
    sample_held_out,
    slow_share,
)
from placement_gym.models import ModelSpec


def rows(measured: list[float], predicted: list[float]) -> list[dict[str, float]]:
    return [
        {"measured_ms": m, "predicted_ms": p, "slow_share": -p}
        for m, p in zip(measured, predicted, strict=True)
    ]


def test_a_perfect_prediction_agrees_in_rank_and_in_value() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    found = compute_agreement(rows(values, values))
    assert found["twin"]["spearman"] == pytest.approx(1.0)
    assert found["twin"]["kendall"] == pytest.approx(1.0)
    assert found["twin"]["median_error"] == 0.0
    assert found["slow_share"]["spearman"] == pytest.approx(-1.0)


def test_a_scale_error_costs_value_and_not_rank() -> None:
    values = [3.0, 1.0, 2.0, 5.0, 4.0, 6.0]
    found = compute_agreement(rows(values, [1.1 * v for v in values]))["twin"]
    assert found["spearman"] == pytest.approx(1.0)
    assert found["median_error"] == pytest.approx(0.1)


def test_the_fastest_third_is_ranked_by_itself() -> None:
    measured = [float(i) for i in range(1, 10)]
    predicted = [3.0, 2.0, 1.0, *measured[3:]]
    found = compute_agreement(rows(measured, predicted))["twin"]
    assert found["spearman_fastest_third"] == pytest.approx(-1.0)
    assert found["spearman"] > 0.9


def test_judged_placements_are_others_than_the_fitted_ones() -> None:
    problem = build_simulated_problem(ModelSpec("resnet"), "cpu+dgpu").problem
    known = {split.tobytes() for split in sample_fit_placements(problem)}
    judged = sample_held_out(problem, 40)
    assert len({split.tobytes() for split in judged}) == 40
    assert not known & {split.tobytes() for split in judged}


def test_share_of_slow_work_is_in_times_of_the_fastest_device() -> None:
    problem = diamond_problem()
    costs = diamond_costs(problem)  # 4, 4, 1 and 1 ms on the first device, which is the faster one
    assert slow_share(problem, costs, np.array([0, 1, 1, 0])) == pytest.approx(5 / 10)
    assert slow_share(problem, costs, problem.single(0)) == 0.0


@pytest.mark.slow
def test_the_command_writes_every_placement_and_a_picture(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pictures: Any,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["fidelity", "--model", "tiny", "--devices", "cpu-testbed", "--placements", "8"]
    with pictures():
        assert main([*words, "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("out") == str(tmp_path)
    assert len(document["rows"]) == 8
    assert np.isfinite(document["twin"]["spearman"])
    assert json.loads((tmp_path / "fidelity-tiny.json").read_text()) == document
    assert (tmp_path / "fidelity-tiny.png").stat().st_size > 10_000


def test_too_few_placements_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 6 placements"):
        fidelity("tiny", "cpu-testbed", n_placements=5)


@pytest.mark.slow
def test_the_profile_command_prints_and_saves_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "costs.json"
    words = ["profile", "--model", "tiny", "--devices", "cpu-testbed", "--out", str(path)]
    assert main(words) == 0
    assert "CPU_FAST" in capsys.readouterr().out
    assert json.loads(path.read_text())["source"] == "profiled"
