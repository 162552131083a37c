# White-box tests of bench.report
"""Where no single device may run the model, nothing is compared with one: rows hold a penalty."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import placement_gym
from placement_gym.bench import open_scene
from placement_gym.bench.report import StudyResults, comparison, load_known_latencies
from placement_gym.bench.report.problems import summarize_runs
from placement_gym.bench.report.study import count_split_wins
from placement_gym.bench.run import BenchEnvs, Task
from placement_gym.view import make_view_data
from placement_gym.view.figures import draw_comparison

SIM = "DevicePlacementSim-v0"
SMALL = [{"name": name, "weight_share": 0.9} for name in ("CPU", "GPU")]
REASON = "No single device may run the model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("placement_gym.view.figures.style.save", lambda *_, **__: None)
        return placement_gym.compare(
            "tiny", ["random"], env_id=SIM, devices=SMALL, budget=20, out=folder, quiet=True
        )


@pytest.fixture
def row(document: dict[str, Any]) -> dict[str, Any]:
    """The run of the one agent; both devices alone have failed."""
    found: dict[str, Any] = document["rows"][-1]
    assert found["beats_best_single"] == "yes"
    assert found["speedup_vs_best_single"] == pytest.approx(10 * found["speedup"])
    return found


def test_the_table_has_dashes_and_the_verdict_says_why(
    document: dict[str, Any], row: dict[str, Any]
) -> None:
    lines = [line for line, _ in comparison.list_lines(document)]
    shown = next(line for line in lines if line["agent"] == row["label"])
    assert (shown["x best single"], shown["faster"]) == ("-", "-")
    assert document["verdict"].startswith(REASON)
    line = comparison.describe_run(row, one_device_holds_the_model=False)
    assert "no single device may run the model, 20 evaluations" in line


def test_bars_are_relative_to_the_reference_device(row: dict[str, Any]) -> None:
    (axes,) = draw_comparison([row], "title", over_reference=True).axes
    assert "reference device" in axes.get_xlabel()
    assert axes.texts[0].get_text().startswith(f"{row['speedup']:.3f} x")


def test_a_view_states_no_speed_up(document: dict[str, Any], folder: Path) -> None:
    scene = open_scene([folder])
    assert [one.result for one in scene.placements] == [
        f"simulated in the run: {document['rows'][-1]['latency_ms']:.4g} ms"
    ]
    assert make_view_data(scene)["one_device_holds_the_model"] is False


def test_a_report_counts_no_wins(row: dict[str, Any], tmp_path: Path) -> None:
    with BenchEnvs() as envs:
        tasks = {row["problem"]: Task.from_row(row)}
        (known,) = load_known_latencies([row], tasks, tmp_path, envs).values()
    results = StudyResults([row], {row["problem"]: known})
    _, cells = summarize_runs(results, row["problem"], row["label"])
    assert (cells["x best single"], cells["faster"]) == ("-", "-")
    assert count_split_wins(results).startswith(REASON)
    other = row | {"problem": row["problem"].replace("tiny", "small")}
    both = StudyResults([row, other], {row["problem"]: known})
    assert re.search("beats .* on 1 of them; no single device .* 1.$", count_split_wins(both))
