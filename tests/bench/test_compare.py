# White-box tests of bench, bench.report, bench.run
"""Comparisons: their rows, files, tables, and what happens when they are run again."""

from __future__ import annotations

import json
import lzma
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Greedy
from packaging.version import Version
from studies import write_rows

import placement_gym
from placement_gym.base import UserError
from placement_gym.bench.comparing import find_stale, summarize
from placement_gym.bench.report import KnownLatencies, comparison, plots
from placement_gym.bench.run import (
    ROWS,
    AgentSpec,
    BenchEnv,
    BenchEnvs,
    Task,
    load_agent,
    load_runs,
)
from placement_gym.bench.run.agents import UnknownAgentError

SIM = "DevicePlacementSim-v0"
RENAMED = {"name": "random", "label": "chance"}


def compare(folder: Path, agents: Any = (), model: Any = "tiny", **kwargs: Any) -> dict[str, Any]:
    options = {"env_id": SIM, "budget": 2, "out": folder, "quiet": True, **kwargs}
    return placement_gym.compare(model, agents, **options)


def test_compare_leaves_files_that_people_can_open(tmp_path: Path, pictures: Any) -> None:
    with pictures():
        document = compare(tmp_path, ["random", "window"], budget=10)
    rows = load_runs(tmp_path / "results.jsonl")
    assert rows == document["rows"]
    assert {row["label"] for row in rows} >= {"single-device CPU", "single-device GPU", "random"}
    assert (tmp_path / "comparison.png").stat().st_size > 10_000
    assert (tmp_path / "best-so-far.png").stat().st_size > 10_000
    assert "window" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "tiny-window-seed0.png").exists()
    saved = placement_gym.Placement.load(tmp_path / "tiny-window-seed0.json")
    window = next(row for row in rows if row["agent"] == "window")
    assert window["placement"] == saved.units
    assert json.loads((tmp_path / "comparison.json").read_text()) == document
    with pytest.raises(UserError, match=r"comparison\.json is not a .*: it is a comparison$"):
        placement_gym.Placement.load(tmp_path / "comparison.json")
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(("seeds", "run"), [((0, 1), [0, 0, 0, 1]), ((0, 0), [0, 0, 0])])
def test_seeds_multiply_agents_once_but_not_single_devices(
    seeds: tuple[int, ...], run: list[int], tmp_path: Path
) -> None:
    rows = compare(tmp_path, ["random"], seeds=seeds)["rows"]
    assert [row["agent"] for row in rows] == ["single-device"] * 2 + ["random"] * (len(run) - 2)
    assert [row["seed"] for row in rows] == run


@pytest.mark.parametrize(
    "wrong", [{"budget": 2.5}, {"budget": 0}, {"budget": True}, {"seeds": ()}, {"seeds": [0.5]}]
)
def test_budgets_and_seeds_that_rows_cannot_hold_are_refused(
    wrong: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"'{next(iter(wrong))}'"):
        compare(tmp_path, ["random"], **wrong)
    assert not list(tmp_path.iterdir())


def test_a_model_whose_path_is_not_utf_8_keeps_its_rows(plain_cnn: str, tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"nets\xff")
    strange.mkdir()
    for suffix in (".xml", ".bin"):
        name = Path(plain_cnn).with_suffix(suffix)
        name.rename(strange / name.name)
    model = str(strange / "chain.xml")
    assert compare(tmp_path, ["random"], model=model)["resumed"] == 0
    assert compare(tmp_path, ["random"], model=model)["resumed"] == 3


def test_infeasible_single_devices_are_listed_not_hidden(tmp_path: Path) -> None:
    devices = [{"name": "CPU"}, {"name": "GPU", "weight_share": 0.5}]
    document = compare(tmp_path, devices=devices)
    cpu, gpu = document["rows"]
    assert gpu["latency_ms"] is None
    assert "GPU would hold" in gpu["error"]
    misfit = "GPU alone: does not fit, 0.3 of 0.6 MB"
    assert misfit in (tmp_path / "table.md").read_text()
    assert document["best_single_ms"] == pytest.approx(cpu["latency_ms"])
    assert document["best_single_unlimited_ms"] < cpu["latency_ms"]


def test_an_interrupted_comparison_keeps_its_rows_and_continues(tmp_path: Path) -> None:
    class Interrupting(Greedy):
        def learn(self, total_timesteps: int) -> None:
            raise KeyboardInterrupt

    document = compare(tmp_path, ["random", Interrupting])
    assert document["interrupted"]
    assert [row["agent"] for row in document["rows"]][-1] == "random"
    assert "Interrupted; rerun" in (tmp_path / "table.md").read_text()
    again = compare(tmp_path, ["random", "window"])
    assert not again["interrupted"]
    assert again["resumed"] == 3
    assert [row["time"] for row in again["rows"][:3]] == [row["time"] for row in document["rows"]]


@pytest.mark.slow
def test_a_rerun_does_what_failed_or_cannot_be_recognised_again(tmp_path: Path) -> None:
    first = compare(tmp_path, ["random", "failing_agent:make", Greedy])
    again = compare(tmp_path, ["random", "failing_agent:make", Greedy])
    assert again["resumed"] == 3
    assert "Failed runs were done again." in again["replaced"]
    assert "objects in memory were done again" in again["replaced"]
    assert len(load_runs(tmp_path / "results.jsonl")) == len(first["rows"]) == 5
    assert not compare(tmp_path, ["random"])["replaced"].startswith("Failed")


@pytest.mark.parametrize(
    "change",
    [{"model_fingerprint": "0"}, {"costs_fingerprint": "0"}, {"devices": [{"name": "NPU"}]}],
    ids=lambda change: next(iter(change)),
)
def test_rows_of_something_that_has_changed_are_replaced(
    change: dict[str, Any], tmp_path: Path
) -> None:
    row, *others = compare(tmp_path)["rows"]
    write_rows(tmp_path, (*others, row | change))
    again = compare(tmp_path)
    assert again["resumed"] == 1
    assert "another version" in again["replaced"]
    assert len(load_runs(tmp_path / "results.jsonl")) == 2


@pytest.mark.parametrize("change", [{"host": ""}, {"versions": {"openvino": "2020.1"}}])
def test_measured_rows_of_another_machine_are_replaced(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row | {"costs_fingerprint": None} for row in compare(tmp_path)["rows"]]
    write_rows(tmp_path, (rows[0], rows[1] | change))
    monkeypatch.setattr(BenchEnv, "measured", property(lambda _: True))
    with BenchEnvs() as envs:
        stale = find_stale(envs.get(SIM, {"model": "tiny"}), load_runs(tmp_path / ROWS), ())
    assert stale.keys() == {rows[1]["key"]}
    assert "another machine or version of OpenVINO" in stale[rows[1]["key"]]


def test_published_rows_that_are_replaced_are_not_used(tmp_path: Path) -> None:
    old, other = compare(tmp_path)["rows"]
    (tmp_path / "results.jsonl").unlink()
    stale = old | {"model_fingerprint": "0", "latency_ms": 1e-3}
    lines = "".join(json.dumps(row) + "\n" for row in (stale, other)).encode()
    (tmp_path / "results.jsonl.xz").write_bytes(lzma.compress(lines))
    for resumed in (1, 2):
        again = compare(tmp_path)
        assert again["resumed"] == resumed
        assert [row["latency_ms"] for row in again["rows"]] == [
            row["latency_ms"] for row in (old, other)
        ]


@pytest.mark.slow
def test_another_comparison_in_the_folder_says_what_it_replaces(tmp_path: Path) -> None:
    compare(tmp_path, ["random"])
    other = compare(tmp_path, ["random"], devices="cpu+igpu")
    assert other["replaced"] == "Other rows of the folder, which this table leaves out: 3."
    assert len(load_runs(tmp_path / "results.jsonl")) == 6
    assert other["replaced"] in comparison_on_terminal(other)


def comparison_on_terminal(document: Any, width: int = 200, verbose: bool = False) -> str:
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as captured:
        console.print(comparison.comparison_table(document, verbose))
    return captured.get()


def test_the_table_shows_the_gap_to_the_proven_optimum(tmp_path: Path) -> None:
    document = compare(tmp_path, ["min-cut", "random"])
    latencies = {row["label"]: row["latency_ms"] for row in document["rows"]}
    assert document["optimum_ms"] == latencies["min-cut"]
    assert document["bound_ms"] <= document["optimum_ms"] <= latencies["random"]
    table = (tmp_path / "table.md").read_text()
    assert f"| proven optimum |   | {document['optimum_ms']:.2f} |" in table
    row = next(line for line in table.splitlines() if line.startswith("| min-cut | 0 |"))
    assert "| 0.0 % |" in row
    assert re.match("Faster .*: min-cut by", document["verdict"])


def test_a_bound_is_shown_where_nothing_is_proven(tmp_path: Path) -> None:
    document = compare(tmp_path, ["heft"], env_kwargs={"schedule": "event"})
    fastest = min(row["latency_ms"] for row in document["rows"])
    assert 0 < document["bound_ms"] < fastest
    assert document["optimum_ms"] is None
    table = (tmp_path / "table.md").read_text()
    assert f"| lower bound |   | {document['bound_ms']:.2f} |" in table
    assert "| ≤ " in table


def test_pictures_that_cannot_be_drawn_cost_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pictures: Any
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("too large to draw")

    monkeypatch.setattr(plots, "draw_placement", fail)
    with pictures():
        document = compare(tmp_path, ["window"])
    assert all(row["latency_ms"] for row in document["rows"])
    assert any("too large to draw" in note for note in document["notes"])


def test_every_label_has_files_of_its_own(tmp_path: Path) -> None:
    labels = ("a 1.5", "a 1 5", "a-1 5", "a 1-5", "a-1-5", "a--1 5", "a  1 5", "a_1_5", "-a-1-5")
    files = {
        comparison.name_file({"model": "tiny", "label": label, "seed": 0}, tmp_path)
        for label in labels
    }
    assert len({file.name.lower() for file in files}) == len(labels)
    agents = [{"name": "random", "label": "a 1"}, {"name": "prefix", "label": "a-1"}]
    compare(tmp_path, agents)
    assert {file.name for file in tmp_path.glob("tiny-a*.json")} == {
        "tiny-a--1-seed0.json",
        "tiny-a-1-seed0.json",
    }


def test_one_agent_under_two_labels_runs_once_as_in_a_study(tmp_path: Path) -> None:
    labels = [row["label"] for row in compare(tmp_path, ["random", RENAMED])["rows"]]
    assert labels == ["single-device CPU", "single-device GPU", "random"]
    assert len(load_runs(tmp_path / "results.jsonl")) == 3


def test_an_agent_in_memory_takes_no_name_of_another_one(tmp_path: Path) -> None:
    def heft(env: Any, seed: int) -> Greedy:
        return Greedy(env, seed)

    shipped = {"name": "heft", "label": "shipped heft"}
    twice = [AgentSpec("mine", factory=heft, alias=alias) for alias in "ab"]
    for agents, name in (([heft, shipped], "heft"), ([heft], "heft"), (twice, "mine")):
        with pytest.raises(UserError, match=f"another agent is called '{name}': rename"):
            compare(tmp_path, agents)
    shipped_object = load_agent("heft")
    assert compare(tmp_path, [shipped_object])["rows"][-1]["agent"] == "heft"


@pytest.mark.parametrize("name", ["nobody", "no.such.module:make", "agents.static:nobody"])
def test_unknown_agents_are_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownAgentError, match=r"nobody|no\.such\.module"):
        compare(tmp_path, [name])
    assert not (tmp_path / "results.jsonl").exists()


def test_measured_latencies_are_shown_corrected_for_drift(tmp_path: Path) -> None:
    document = compare(tmp_path, ["window"])
    slow = [
        row | {"latency_ms": 3 * row["latency_ms"]} if row["agent"] == "window" else row
        for row in document["rows"]
    ]
    with BenchEnvs() as envs:
        corrected = summarize(envs, Task.from_row(slow[0]), slow, tmp_path)
    assert [row["latency_ms"] for row in corrected["rows"]] == pytest.approx(
        [row["latency_ms"] for row in document["rows"]], rel=1e-9
    )


def test_doubt_is_shown_beside_the_row_and_stated(tmp_path: Path) -> None:
    document = compare(tmp_path, ["window"])
    *others, window = document["rows"]
    doubtful = {"warning": "the machine was busy", "beats_best_single": "within noise"}
    shown = document | {"rows": [*others, window | doubtful]}
    for text in (comparison_on_terminal(shown), comparison.format_markdown(shown)):
        assert "window is doubtful: the machine was busy" in text
        assert "within noise" not in text
    disturbed = document | {"rows": [*others, window | {"interference": 0.23}]}
    assert "window: other programs took 23% of the time" in comparison_on_terminal(disturbed)
    alone = others[0] | {"warning": "the machine was busy", "beats_best_single": "no"}
    assert comparison.format_row(alone, KnownLatencies())["faster"] == "no"


def test_on_80_columns_no_row_is_torn_and_the_legend_has_one_line(tmp_path: Path) -> None:
    agents = ["search", {"name": "random-blocks", "label": "random-blocks, long name"}]
    document = compare(tmp_path, agents, seeds=2, devices="cpu-testbed-limited")
    lines = comparison_on_terminal(document, 80).splitlines()
    (legend,) = (at for at, line in enumerate(lines) if line.startswith("ms: "))
    if Version(version("rich")) < Version("14.3"):  # takes a table for one character wider
        assert lines.pop(legend + 1).startswith("Hidden for lack of width: seed")
    assert lines[legend + 1].startswith("CPU_FAST alone: does not fit")
    labels = tuple(row["label"] for row in document["rows"])
    rows = [line for line in lines[:legend] if line.startswith(labels)]
    assert len(rows) == len(labels)
    assert not [row for row in rows if not re.search(r" +(yes|no|does not fit) +\d+ *$", row)]
    assert "wall s" not in " ".join(lines)
    assert "wall s: of the search" in comparison_on_terminal(document, 240, verbose=True)
    failed = [row | {"error": f"lost {n}"} for n in range(9) for row in document["rows"][:1]]
    many = document | {"rows": failed}
    assert "further failures: 4; -v names all" in comparison_on_terminal(many)
    assert "lost 8" in comparison_on_terminal(many, verbose=True)


def test_model_in_memory_is_recognised_in_a_second_comparison(tmp_path: Path) -> None:
    from placement_gym.models import load_model

    compare(tmp_path, ["random"], model=load_model("tiny"))
    assert compare(tmp_path, ["random"], model=load_model("tiny"))["resumed"] == 3
    assert np.isfinite(load_runs(tmp_path / "results.jsonl")[0]["latency_ms"])


@pytest.fixture
def plain_cnn(tmp_path: Path) -> str:
    """A chain of layers, which is a single unit under the default granularity."""
    from foreign_models import save_chain_ir

    return str(save_chain_ir(tmp_path / "chain.xml"))


@pytest.mark.slow
def test_a_chain_is_compared_in_finer_units_and_that_is_said(
    plain_cnn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = compare(tmp_path, ["random"], model=plain_cnn, quiet=False)
    assert document["n_units"] >= 4
    assert any("the default granularity leaves 1 unit:" in note for note in document["notes"])
    assert "the default granularity leaves" in capsys.readouterr().err
    coarse = compare(tmp_path, [], model=plain_cnn, env_kwargs={"granularity": "colocated"})
    assert coarse["n_units"] == 1
    assert any("little to place" in note for note in coarse["notes"])


def test_arguments_of_the_environment_are_pointed_to_env_kwargs() -> None:
    with pytest.raises(UserError, match=r"'granularity': .* pass env_kwargs=\{'granularity'"):
        placement_gym.compare("tiny", granularity="op")
    with pytest.raises(TypeError, match="'buget'; did you mean 'budget'"):
        placement_gym.compare("tiny", buget=3)
