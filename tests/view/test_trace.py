# White-box tests of view
"""The timeline that other viewers read, and the files of the command ``view``."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fakes import diamond_backend
from graphs import simulate
from pages import unpack

from placement_gym.cli import main
from placement_gym.problem import Placement
from placement_gym.problem.costs import PRESETS
from placement_gym.view import DisplayedPlacement, Scene, make_trace, make_view_data
from placement_gym.view.trace import separate


@pytest.fixture
def scene() -> Scene:
    split = np.array([0, 0, 1, 1])
    return Scene(
        diamond_backend(),
        (DisplayedPlacement("split", split), DisplayedPlacement("alone", split * 0)),
    )


def test_a_trace_has_every_bar_in_a_named_thread_in_microseconds(scene: Scene) -> None:
    data = make_view_data(scene)
    trace = make_trace(data)
    named = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    bars = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    first = data["placements"][0]
    mine = [bar for bar in bars if bar["pid"] == 1]
    assert len(mine) == len(first["runs"]["unit"]) + len(first["transfers"]["unit"])
    assert {named[bar["pid"], bar["tid"]] for bar in mine} == {"CPU", "GPU", "CPU to GPU"}
    last = max(bar["ts"] + bar["dur"] for bar in mine)
    assert last == pytest.approx(1000 * first["latency_ms"], rel=1e-3)


def test_bars_of_a_thread_never_overlap() -> None:
    backend = simulate("synthetic-layered-60", "op", "cpu+2dgpu", PRESETS["list"])
    mixed = np.arange(backend.problem.n_units) % 3
    trace = make_trace(make_view_data(Scene(backend, (DisplayedPlacement("mixed", mixed),))))
    threads = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            threads[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for bars in threads.values():
        bars.sort()
        for (_, end), (start, _) in pairwise(bars):
            assert round(1000 * end) < round(1000 * start)  # in ns: Perfetto drops overlapping bars


def test_what_rounding_makes_overlap_stays_in_one_lane() -> None:
    columns = {"start": [0.0, 0.12345678], "ms": [0.1235, 1.0]}
    assert separate(columns, [0, 1]) == [[0, 1]]


def test_bars_that_overlap_are_in_several_lanes() -> None:
    columns = {"start": [0.0, 1.0, 2.0], "ms": [2.0, 2.0, 1.0]}
    assert separate(columns, [2, 1, 0]) == [[0, 2], [1]]


def test_the_command_writes_what_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = simulate("tiny", "op").problem
    Placement.from_assignment(problem, np.arange(problem.n_units) % 2).save(tmp_path / "p.json")
    files = {name: str(tmp_path / name) for name in ("t.json", "p.svg", "v.html")}
    view = ["view", str(tmp_path / "p.json"), "--out", files["v.html"]]
    more = ["--trace", files["t.json"], "--picture", files["p.svg"]]
    assert main([*view, *more]) == 0
    assert "ui.perfetto.dev" in capsys.readouterr().out
    block = Path(files["v.html"]).read_text().split('type="application/gzip">')[1]
    assert len(unpack(block.split("</script>")[0])["units"]["name"]) == problem.n_units
    assert json.loads(Path(files["t.json"]).read_text())["traceEvents"]
    assert "<svg" in Path(files["p.svg"]).read_text()[:2000]
    assert main([*view, "--picture", str(tmp_path / "p.gif")]) == 2
    assert ".svg" in capsys.readouterr().err
