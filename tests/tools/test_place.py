"""Placing with the sequential placer: what is compared, saved, and said about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents.sequential import Network
from agents.sequential.checkpoint import save_network
from placement_gym.backends.measured import profile
from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.cli.main import main
from placement_gym.errors import EngineError, UserError
from placement_gym.machine import UnknownDeviceError
from placement_gym.placement import Placement
from placement_gym.tools import twin
from placement_gym.tools.place import Found, choose, make_rows, place, summarize
from placement_gym.tools.twin import make_twin

GRAPH = {"model": "synthetic-layered-60", "devices": "cpu+2dgpu", "granularity": "op"}
ANYWHERE = np.zeros(4, dtype=np.int64)


def found(label: str, latency_ms: float | None, own: bool = False) -> Found:
    return Found(label, ANYWHERE, latency_ms, "" if latency_ms else "too large", own, 0, 0.0)


def test_every_way_to_place_has_a_row(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    document = place(
        **GRAPH, samples=30, fine_tune=30, out=file, env_kwargs={"schedule": "list"}, quiet=True
    )
    rows = {row["label"]: row for row in document["rows"]}
    labels = ["CPU alone", "GPU.0 alone", "GPU.1 alone", "HEFT", "zero-shot"]
    assert list(rows) == [*labels, "best of 30", "fine-tuned with 30"]
    assert [row["evaluations"] for row in rows.values()] == [0, 0, 0, 0, 0, 30, 30]
    assert rows["HEFT"]["vs_heft"] == 1.0
    assert max(row["speedup"] for label, row in rows.items() if "alone" in label) == 1.0
    assert rows["best of 30"]["latency_ms"] <= rows["zero-shot"]["latency_ms"]
    assert (document["costs"], document["schedule"]) == ("analytic", "list")
    env = make_twin({**GRAPH, "schedule": "list"})
    saved = Placement.load(file).assignment(env.problem)
    assert env.backend.evaluate(saved).latency_ms == rows[document["placement"]]["latency_ms"]


def test_a_planted_graph_has_no_profile_to_look_for() -> None:
    assert make_twin({"model": "planted-2x5-seed1", "granularity": "op"}).problem.n_units == 10


def test_the_profile_is_that_of_the_given_shapes_and_scenario(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {}

    def refuse(model: Any, **kwargs: Any) -> None:
        asked.update(kwargs)
        raise UnknownDeviceError

    monkeypatch.setattr(twin, "build_measured_backend", refuse)
    given = {"shapes": {"x": [4, 8]}, "scenario": "chat-8-2", "granularity": "op"}
    assert twin.find_profile({"model": "mine.xml", "horizon": 2, **given}) == {}
    assert asked == given


def test_a_checkpoint_decides_the_placement(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = Network(hidden=4)
    torch.nn.init.normal_(network.out.weight, std=5.0)
    save_network(network, tmp_path / "network.safetensors", {})
    kwargs: dict[str, Any] = {**GRAPH, "samples": 0, "quiet": True}
    usual = place(**kwargs, out=tmp_path / "a.json")
    other = place(**kwargs, out=tmp_path / "b.json", checkpoint=tmp_path / "network.safetensors")
    assert usual["rows"][-1]["latency_ms"] != other["rows"][-1]["latency_ms"]


@pytest.mark.slow
def test_the_profile_that_this_machine_keeps_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "cache_folder", lambda: tmp_path)
    kwargs = {"model": "tiny", "devices": "cpu-testbed", "granularity": "op"}
    twin = make_twin(kwargs)
    assert twin.cost_table().source == "analytic"
    backend = build_measured_backend(**kwargs)
    replace(twin.cost_table(), source="profiled").save(profile.cache_path(backend))
    assert make_twin(kwargs).cost_table().source == "profiled"
    assert make_twin({**kwargs, "costs": "analytic"}).cost_table().source == "analytic"


def test_the_fastest_of_the_placers_own_is_chosen() -> None:
    rows = [found("HEFT", 3.0), found("zero-shot", 5.0, True), found("best of 9", 4.0, True)]
    assert choose(rows).label == "best of 9"
    with pytest.raises(EngineError, match="too large; try more --samples"):
        choose([found("HEFT", 3.0), found("zero-shot", None, True)])


@pytest.mark.parametrize(
    ("single_ms", "heft_ms", "said"),
    [
        (6.0, 5.0, "zero-shot is 25.0 % faster than HEFT, by simulation."),
        (2.0, 5.0, "GPU alone is 100.0 % faster than zero-shot: take that one."),
        (4.0, 5.0, "zero-shot is as fast as GPU alone, by simulation."),
        (None, None, "zero-shot fits; no single device does, nor HEFT's placement."),
    ],
)
def test_the_verdict_names_what_is_faster(
    single_ms: float | None, heft_ms: float | None, said: str
) -> None:
    rows = [found("GPU alone", single_ms), found("HEFT", heft_ms), found("zero-shot", 4.0, True)]
    assert summarize(rows, choose(rows)) == said
    ratios = [make_rows(rows)[-1][key] for key in ("speedup", "vs_heft")]
    assert ratios == [ms and ms / 4.0 for ms in (single_ms, heft_ms)]


def test_the_command_prints_a_table_or_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--devices", "cpu+dgpu", "--samples", "0", "--out", str(tmp_path / "p.json")]
    words = ["place", "--model", "synthetic-layered-40", *out, "--set", "schedule=list"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    for word in ("zero-shot", "HEFT", "x best", "analytic", "not measured"):
        assert word in printed
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_units"] > 10


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"samples": -1}, "samples must be an integer of at least 0"),
        ({"env_kwargs": {"schedul": "list"}}, "did you mean 'schedule'"),
        ({"checkpoint": "gone.safetensors"}, "gone.safetensors"),
    ],
)
def test_a_users_error_names_what_is_wrong(
    kwargs: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said):
        place(**GRAPH, **kwargs, out=tmp_path / "p.json", quiet=True)
