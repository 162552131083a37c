"""Comparisons: their rows, files and reports."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from fakes import Greedy

import placement_gym
from placement_gym.bench.report import tables as report
from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec, UnknownAgentError
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.devices import collect_cautions, parse_devices
from placement_gym.env import placement_env
from placement_gym.models import load

SIM = "DevicePlacementSim-v0"


def test_compare_leaves_files_that_people_can_open(tmp_path: Path) -> None:
    document = placement_gym.compare("tiny", None, SIM, budget=10, out=tmp_path, quiet=True)
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert rows == document["rows"]
    assert {row["label"] for row in rows} >= {"single-device CPU", "single-device GPU", "random"}
    assert (tmp_path / "comparison.png").stat().st_size > 10_000
    assert "window" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "tiny-window-seed0.png").exists()
    saved = placement_gym.Placement.load(tmp_path / "tiny-window-seed0.json")
    window = next(row for row in rows if row["agent"] == "window")
    assert window["placement"] == saved.units
    json.dumps(document, allow_nan=False)


def test_seeds_multiply_agents_but_not_single_devices(tmp_path: Path) -> None:
    document = placement_gym.compare(
        "tiny", ["random"], SIM, budget=2, seeds=(0, 1), out=tmp_path, quiet=True
    )
    assert [(row["agent"], row["seed"]) for row in document["rows"]] == [
        ("single-device", 0),
        ("single-device", 0),
        ("random", 0),
        ("random", 1),
    ]


def test_infeasible_single_devices_are_listed_not_hidden(tmp_path: Path) -> None:
    devices = [{"name": "CPU"}, {"name": "GPU", "weight_share": 0.5}]
    document = placement_gym.compare("tiny", [], SIM, devices, budget=2, out=tmp_path, quiet=True)
    cpu, gpu = document["rows"]
    assert gpu["latency_ms"] is None
    assert "GPU holds" in gpu["error"]
    assert gpu["error"] in (tmp_path / "table.md").read_text()
    assert document["best_single_ms"] == cpu["latency_ms"]
    assert document["best_single_unlimited_ms"] < cpu["latency_ms"]


def test_an_interrupt_keeps_the_finished_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting(Greedy):
        def learn(self, total_timesteps: int) -> None:
            raise KeyboardInterrupt

    document = placement_gym.compare(
        "tiny", ["random", Interrupting], SIM, budget=2, out=tmp_path, quiet=True
    )
    assert document["interrupted"]
    assert [row["agent"] for row in document["rows"]][-1] == "random"
    assert (tmp_path / "table.md").exists()


def test_a_test_bed_and_mixed_precision_are_cautioned_against() -> None:
    found = collect_cautions(parse_devices("cpu-testbed-bf16"))
    assert [note.split(":")[0] for note in found] == ["test bed", "mixed precision"]
    assert [note.split(":")[0] for note in collect_cautions((), measured=False)] == ["simulated"]


def test_a_report_names_the_winner_or_says_that_there_is_none(tmp_path: Path) -> None:
    document = placement_gym.compare("tiny", [], SIM, budget=2, out=tmp_path, quiet=True)
    assert report.conclusion(document) == "No split was measured."
    split = {"label": "window", "placement": {"a": "CPU", "b": "GPU"}}
    for verdict, speedup, words in (
        ("no", 0.5, "No split beats the best single device."),
        ("within noise", 1.01, "window equals it within noise"),
        ("yes", 1.25, "window beats the best single device by 25.0 %."),
    ):
        row = {**split, "beats_best_single": verdict, "speedup_vs_best_single": speedup}
        assert words in report.conclusion({**document, "rows": [*document["rows"], row]})
        unheld = {**document, "rows": [row], "best_single_ms": None}
        assert "No single device holds the model" in report.conclusion(unheld)
    assert report.conclusion({**document, "interrupted": True}).startswith("Interrupted.")


def test_two_agents_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="random"):
        placement_gym.compare("tiny", ["random", "random"], SIM, out=tmp_path, quiet=True)


def test_a_torn_last_line_costs_no_other_row(bench_env: BenchEnv, tmp_path: Path) -> None:
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=0, budget=2)
    path = tmp_path / "results.jsonl"
    rows_file.append(path, row)
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    rows_file.append(path, row)
    assert path.read_text() == whole * 2


def test_values_that_are_not_finite_become_null() -> None:
    assert rows_file.plain({"a": [float("nan"), 1.0], "b": float("inf")}) == {
        "a": [None, 1.0],
        "b": None,
    }


def test_rows_carry_what_made_them(bench_env: BenchEnv) -> None:
    row, _ = run_agent(bench_env, AgentSpec("random"), seed=4, budget=2)
    values = row.to_json()
    assert values["versions"]["openvino"] == ov.__version__.split("-")[0]
    assert values["model_fingerprint"] == bench_env.base.problem.units.graph.fingerprint()
    assert (values["seed"], values["budget"]) == (4, 2)


@pytest.mark.parametrize("name", ["nobody", "no.such.module:make", "agents.static:nobody"])
def test_unknown_agents_are_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownAgentError, match=r"nobody|no\.such\.module"):
        placement_gym.compare("tiny", [name], SIM, out=tmp_path, quiet=True)
    assert not (tmp_path / "results.jsonl").exists()


def test_a_saved_placement_is_measured_again_without_the_environment(tmp_path: Path) -> None:
    from placement_gym.tools.evaluate import evaluate_placement

    env = gym.make("placement_gym:DevicePlacement-v0", model="tiny", devices="cpu-testbed")
    base = placement_env(env)
    assignment = np.arange(base.problem.n_units) % 2
    base.evaluate(assignment)
    base.placement().save(tmp_path / "placement.json")
    values = evaluate_placement(load("tiny"), tmp_path / "placement.json")
    assert values["n_submodels"] == base.last_measurement.n_submodels
    assert values["latency_ms"] > 0
    assert values["beats_best_single"] in ("yes", "no", "within noise")
