"""Which placements a page shows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from foreign_models import ones_of
from openvino import opset13 as ops
from studies import study

from placement_gym.backends.simulated import build_simulated_problem
from placement_gym.base import UserError
from placement_gym.bench import open_scene
from placement_gym.bench.run import load_runs
from placement_gym.bench.study import run_study
from placement_gym.cli import main, make_parser
from placement_gym.models import ModelSpec
from placement_gym.problem import Placement, PlacementMismatchError

MODEL = "synthetic-layered-30"


def save(path: Path, granularity: str = "op", devices: str = "cpu+dgpu", model: str = MODEL) -> str:
    problem = build_simulated_problem(ModelSpec(model, granularity), devices).problem
    assignment = np.arange(problem.n_units) % len(problem.devices)
    Placement.from_assignment(problem, assignment).save(path)
    return str(path)


def save_dynamic(path: Path) -> None:
    """A model with a dynamic batch."""
    x = ops.parameter([-1, 8], np.float32, name="x")
    ov.save_model(ov.Model([ops.relu(x)], [x], "dynamic"), path)


def test_a_file_is_shown_beside_the_fastest_single_device(tmp_path: Path) -> None:
    scene = open_scene([save(tmp_path / "mine.json")])
    first, alone = scene.placements
    assert first.label == "mine"
    assert first.saved == "Saved: a split, 15 of 30 units on GPU"
    assert alone.saved == ""
    assert first.assignment.tolist() == [i % 2 for i in range(30)]
    problem = scene.backend.problem
    times = [scene.backend.evaluate(problem.single(d)).latency_ms for d in range(2)]
    assert alone.label == f"{problem.device_names[int(np.argmin(times))]} alone"


def test_costs_given_with_a_file_are_those_of_its_view(tmp_path: Path) -> None:
    file = Path(save(tmp_path / "plan.json"))
    table = build_simulated_problem(ModelSpec(MODEL, "op"), "cpu+dgpu").costs
    replace(table, source="mine").save(tmp_path / "plan-costs.json")
    assert open_scene([file]).backend.costs.source == "mine"
    with pytest.raises(PlacementMismatchError, match="was made for model"):
        open_scene([file], "synthetic-layered-31")


def test_placements_of_equal_units_keep_them(tmp_path: Path) -> None:
    files = [save(tmp_path / f"{name}.json", "colocated") for name in "ab"]
    scene = open_scene(files)
    placement = Placement.load(files[0])
    assert set(scene.backend.problem.units.names) == set(placement.units)


def test_placements_of_different_units_are_compared_by_operator(tmp_path: Path) -> None:
    files = [save(tmp_path / f"{name}.json", name) for name in ("colocated", "op")]
    scene = open_scene(files)
    assert scene.backend.problem.n_units == 30
    coarse = build_simulated_problem(ModelSpec(MODEL, "colocated")).problem
    expected = np.arange(coarse.n_units)[coarse.units.of_operator] % 2
    assert scene.placements[0].assignment.tolist() == expected.tolist()


def test_devices_may_be_listed_in_another_order(tmp_path: Path) -> None:
    first = save(tmp_path / "a.json")
    placement = Placement.load(first)
    turned = replace(placement, devices=placement.devices[::-1])
    turned.save(tmp_path / "b.json")
    a, b, _ = open_scene([first, tmp_path / "b.json"]).placements
    assert a.assignment.tolist() == b.assignment.tolist()


def test_placements_of_other_devices_or_models_do_not_compare(tmp_path: Path) -> None:
    first = save(tmp_path / "a.json")
    with pytest.raises(PlacementMismatchError, match="same devices"):
        open_scene([first, save(tmp_path / "b.json", devices="cpu+igpu+npu")])
    with pytest.raises(PlacementMismatchError, match="differs"):
        open_scene([first, save(tmp_path / "c.json", model="synthetic-layered-31")])


def run(folder: Path, models: list[str], **changes: Any) -> None:
    agents = ["random", "window"]
    small = {"models": models, "devices": ["cpu+dgpu"], "agents": agents, "budget": 3, "seeds": 2}
    run_study(study(**small, **changes), folder, executor="serial", quiet=True)


def test_a_folder_shows_the_fastest_run_of_each_agent(tmp_path: Path) -> None:
    run(tmp_path, [MODEL], env_kwargs={"schedule": "list"})
    scene = open_scene([tmp_path])
    best: dict[str, float] = {}
    for row in load_runs(tmp_path):
        best[row["label"]] = min(row["latency_ms"], best.get(row["label"], np.inf))
    shown = {
        one.label: scene.backend.evaluate(one.assignment).latency_ms
        for one in scene.placements[:-1]
    }
    assert shown == pytest.approx(best)
    assert list(shown) == sorted(shown, key=lambda label: shown[label])
    assert "best single device" in scene.placements[0].result
    assert scene.backend.semantics.schedule == "list"


def test_several_problems_need_a_choice(tmp_path: Path) -> None:
    run(tmp_path, [MODEL, "synthetic-layered-16"])
    with pytest.raises(UserError, match=r"choose --problem: 1: .*30 on .*; 2: .*16 on"):
        open_scene([tmp_path])
    assert open_scene([tmp_path], problem=2).backend.problem.units.graph.model.endswith("16")
    with pytest.raises(UserError, match="2 problems, not 3"):
        open_scene([tmp_path], problem=3)


def test_a_model_that_is_no_built_in_is_asked_for(tmp_path: Path) -> None:
    file = save(tmp_path / "a.json")
    replace(Placement.load(file), model="mine").save(file)
    with pytest.raises(UserError, match="--model FILE"):
        open_scene([file])
    with pytest.raises(UserError, match=r"^no model 'other'"):
        open_scene([file], model="other")
    assert open_scene([file], model=MODEL).backend.problem.n_units == 30
    run(tmp_path, [MODEL])
    rows = tmp_path / "results.jsonl"
    rows.write_text(rows.read_text().replace(MODEL, "mine"))
    with pytest.raises(UserError, match="--model FILE"):
        open_scene([tmp_path])


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("x.xml", {"shapes": {"x": [4, 8]}}),
        pytest.param("gpt", {"scenario": "chat-8-2"}, marks=pytest.mark.slow),
    ],
)
def test_shapes_and_scenario_are_those_of_the_placement(
    model: str, given: dict[str, Any], tmp_path: Path
) -> None:
    save_dynamic(tmp_path / "x.xml")
    named = model if model == "gpt" else str(tmp_path / model)
    problem = build_simulated_problem(ModelSpec(named, "op", **given)).problem
    Placement.from_assignment(problem, problem.single(0)).save(tmp_path / "a.json")
    scene = open_scene([tmp_path / "a.json"], named, shapes=given.get("shapes"))
    assert scene.backend.problem.units.graph.fingerprint() == problem.units.graph.fingerprint()


def test_an_empty_folder_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no runs"):
        open_scene([tmp_path])


def save_made_with(folder: Path, **shapes: Any) -> list[str]:
    """A placement of a model that was given shapes; returns the words that name both files."""
    words = [str(folder / "a.json"), "-m", str(folder / "x.xml")]
    save_dynamic(folder / "x.xml")
    problem = build_simulated_problem(ModelSpec(words[-1], "op", **shapes), "cpu-testbed").problem
    Placement.from_assignment(problem, problem.single(0)).save(words[0])
    return words


def test_the_view_has_the_data_shapes_of_its_placement(tmp_path: Path) -> None:
    words = save_made_with(tmp_path, inputs=ones_of({"x": [3, 8]}))
    assert main(["view", *words, "--out", str(tmp_path / "page.html")]) == 0
    (parameter, *_), *_ = open_scene(words[:1], words[-1]).backend.problem.units.graph.shapes
    assert parameter == 3


@pytest.mark.parametrize("command", ["view", "evaluate", "export"])
def test_commands_with_a_placement_advise_only_their_options(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [command, *save_made_with(tmp_path, shapes={"x": [1, 8]})]
    known = make_parser().commands[command]._option_string_actions
    assert main(words) == 2
    advised = re.findall(r"--[a-z-]+", capsys.readouterr().err)
    assert advised == ["--shape"]
    assert set(advised) <= set(known)


def test_stateless_placement_advises_no_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, *_ = save_made_with(tmp_path, inputs=ones_of({"x": [3, 8]}))
    assert main(["view", file, "-m", "gpt"]) == 2
    assert capsys.readouterr().err.endswith("made for one without: name that model\n")


def test_the_command_takes_the_shapes_that_a_message_advises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["view", *save_made_with(tmp_path, shapes={"x": [1, 8]})]
    words += ["--out", str(tmp_path / "page.html")]
    assert main(words) == 2
    assert '--shape "x[1,8]"' in capsys.readouterr().err
    assert main([*words, "--shape", "x[1,8]"]) == 0
