"""Files that version 0.1.0 saved are read, and mean what they meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import openvino as ov
import pytest

import placement_gym
from placement_gym.bench.report import stats
from placement_gym.bench.report.study import report_study
from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.study.replay import validate
from placement_gym.bench.study.runner import run_study
from placement_gym.bench.study.spec import Study

SAVED = Path(__file__).parent / "data" / "0.1.0"
LATENCIES = json.loads((SAVED / "latencies.json").read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the saved files, to write beside them."""
    return Path(shutil.copytree(SAVED, tmp_path / "saved"))


def play(placement: placement_gym.Placement, **env_kwargs: Any) -> dict[str, Any]:
    """The info of the one step that evaluates a placement on the simulator."""
    env = gym.make("placement_gym:DevicePlacementSim-v0", **env_kwargs)
    env.reset(seed=0)
    *_, info = env.step(placement.assignment(env.unwrapped.problem))  # type: ignore[attr-defined]
    return info


@pytest.mark.parametrize(
    ("name", "env_kwargs"),
    [
        ("tiny-placement", {"model": "tiny", "devices": "cpu-testbed"}),
        (
            "small-placement",
            {"model": str(SAVED / "small.xml"), "devices": "cpu-testbed", "granularity": "op"},
        ),
    ],
)
def test_placements_have_the_latency_that_they_had(name: str, env_kwargs: dict[str, Any]) -> None:
    placement = placement_gym.Placement.load(SAVED / f"{name}.json")
    info = play(placement, **env_kwargs)
    before = LATENCIES[f"{name}.json"]
    assert info["latency_ms"] == pytest.approx(before["latency_ms"], rel=1e-12)
    assert info["speedup"] == pytest.approx(before["speedup"], rel=1e-12)


def test_a_placement_compiles_the_model_that_it_was_made_for() -> None:
    model = ov.Core().read_model(SAVED / "small.xml")
    placement = placement_gym.Placement.load(SAVED / "small-placement.json")
    compiled = placement_gym.compile_model(ov.Core(), model, placement)
    assert compiled.get_property("HETERO_NUMBER_OF_SUBMODELS") == 2


def test_placements_are_saved_as_they_were(tmp_path: Path) -> None:
    saved = SAVED / "tiny-placement.json"
    placement_gym.Placement.load(saved).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == saved.read_text()


def test_rows_of_a_comparison_have_the_latencies_that_they_had() -> None:
    rows = rows_file.load_rows(SAVED / "compare" / rows_file.ROWS)
    assert [row["label"] for row in rows] == [
        "single-device CPU",
        "single-device GPU",
        "random-blocks",
        "heft",
    ]
    heft = placement_gym.Placement.load(SAVED / "compare" / "tiny-heft-seed0.json")
    assert heft.units == rows[-1]["placement"]
    info = play(heft, model="tiny", devices="cpu+igpu")
    assert info["latency_ms"] == pytest.approx(rows[-1]["latency_ms"], rel=1e-12)


def test_a_comparison_goes_on_in_the_folder_of_an_old_one(folder: Path) -> None:
    before = rows_file.load_rows(folder / "compare" / rows_file.ROWS)
    document = placement_gym.compare(
        "tiny", ["heft"], "DevicePlacementSim-v0", "cpu+igpu", 5, out=folder / "compare", quiet=True
    )
    assert document["rows"][-1]["latency_ms"] == before[-1]["latency_ms"]
    assert rows_file.load_rows(folder / "compare" / rows_file.ROWS)[: len(before)] == before


def test_a_study_is_known_by_its_keys(folder: Path) -> None:
    study = Study.load(folder / "study.yaml")
    keys = [task.key for task in study.tasks()]
    assert keys == ["86dae87228de4216", "646c35214870d1bd", "1d7be50ba8c8249b", "058a26c36a5aef25"]
    before = rows_file.load_rows(folder / "study" / rows_file.ROWS)
    assert [row["key"] for row in before] == keys
    assert run_study(study, folder / "study", "serial", quiet=True) == before


def test_keys_do_not_depend_on_labels_variables_or_defaults() -> None:
    study = Study(
        env="DevicePlacement-v0",
        models=["resnet", "${NETS}/net.xml"],
        devices=[None, ["GPU", "CPU"]],
        agents=[
            "milp",
            {"name": "hsdag", "kwargs": {"policy": {"cost_weight": 0.0}}, "label": "anything"},
        ],
        seeds=[3],
        budget=20,
    )
    assert [task.key for task in study.tasks()] == [
        "751a09e845c3d29d",
        "88086a1d103cc3d9",
        "67bbb01614551f54",
        "00f0452fbdc09d76",
        "70044c7c0ca0ac01",
        "c3d324143245d2d7",
        "26f9d713dbef0586",
        "db187312a23de8a2",
    ]


def test_the_rows_of_a_study_are_valid(folder: Path) -> None:
    replays = list(validate(folder / "study", quiet=True))
    assert [replay.error for replay in replays] == [""] * 4


def test_the_rows_of_a_study_are_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 100)
    study = Study.load(folder / "study.yaml")
    markdown, page = report_study(study, folder / "study", quiet=True)
    text = markdown.read_text()
    assert "4 of 4 runs" in text
    assert "annealing from the best" in text
    assert "# Failed" not in text
    assert "A tiny study, run by version 0.1.0" in page.read_text()
