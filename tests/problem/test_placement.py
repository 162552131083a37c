from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import GraphOf, alternating, problem_on

from placement_gym.base import UserError
from placement_gym.graph import extract
from placement_gym.hardware import PRESETS
from placement_gym.models import load_model
from placement_gym.problem import Placement, Problem, describe_saved


def test_placement_names_the_device_of_every_unit(tiny: Problem, mixed: Placement) -> None:
    expected = ["CPU", "CPU_FAST"] * tiny.n_units
    assert mixed.units == dict(zip(tiny.units.names, expected, strict=False))
    assert sorted(sum(mixed.members.values(), ())) == sorted(sum(tiny.units.graph.members, ()))


def test_placement_survives_its_file_of_plain_json(
    tmp_path: Path, tiny: Problem, mixed: Placement
) -> None:
    mixed.save(tmp_path / "placement.json")
    loaded = Placement.load(tmp_path / "placement.json")
    assert loaded == mixed
    assert loaded.assignment(tiny).tolist() == alternating(tiny).tolist()
    values = json.loads((tmp_path / "placement.json").read_text())
    assert (values["units"], values["fingerprint"]) == (mixed.units, mixed.fingerprint)


def test_file_keeps_the_settings_of_the_devices(tmp_path: Path, graph_of: GraphOf) -> None:
    problem = problem_on(graph_of("tiny", "folded"), PRESETS["cpu-testbed-limited"])
    Placement.from_assignment(problem, problem.single(1)).save(tmp_path / "placement.json")
    assert Placement.load(tmp_path / "placement.json").devices == PRESETS["cpu-testbed-limited"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "invalid JSON"),
        (b"units: {}", "invalid JSON"),
        (b"\xff\xfe", "invalid JSON"),
        (b"[]", "needs an object with the key 'format'"),
        (b"{}", "needs an object with the key 'format'"),
        (b'{"format": 1}', "'model' is missing"),
        (b'{"format": 99, "units": {}}', "its format is 99, this version reads 1"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_its_name(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"other\.json is not a placement file.*{fault}"):
        Placement.load(path)


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("model", None, "'model' must be a valid string, not None"),
        ("units", ["CPU"], "'units' must be a valid dictionary, not list of 1"),
        ("units", {"a": 0}, "'units.a' must be a valid string, not 0"),
        ("members", {"a": "a"}, "'members.a' must be a valid list, not 'a'"),
        ("devices", "CPU", "'devices' must be a valid list, not 'CPU'"),
        ("devices", ["CPU"], "a device needs 'name'"),
        ("structure", {"kinds": {"a": "Relu"}, "reads": {}}, "'structure.kinds.a'"),
        ("structure", {"kinds": {"a": "Relu f32[1] 0"}, "reads": {"a": ["b"]}}, "'a' reads 'b'"),
    ],
)
def test_a_file_with_a_wrong_entry_is_refused_with_its_key(
    tmp_path: Path, mixed: Placement, key: str, value: Any, fault: str
) -> None:
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(mixed.to_json() | {key: value}))
    with pytest.raises(UserError, match=rf"edited\.json is not a placement file.*{fault}"):
        Placement.load(path)


@pytest.mark.parametrize(
    ("devices", "words", "said"),
    [
        (("CPU", "CPU"), {}, "Saved: CPU alone"),
        (("CPU", "CPU"), {"speedup": 1.0, "best_single": "CPU alone"}, "Saved: CPU alone"),
        (("CPU", "GPU", "CPU"), {}, "Saved: .* 1 of 3 units on GPU"),
        (
            ("CPU", "GPU", "CPU"),
            {"speedup": 1.206, "noise": 0.025, "best_single": "CPU alone"},
            "Saved: .* 1 of 3 units on GPU, 1.21 ±0.03 x CPU alone",
        ),
        (
            ("CPU", "CPU", "CPU", "GPU", "GPU", "NPU"),
            {"speedup": 2.0, "best_single": "GPU alone"},
            "Saved: .* 2 of 6 units on GPU and 1 on NPU, 2.00 x GPU alone",
        ),
    ],
)
def test_the_line_names_the_devices_and_the_gain(
    devices: tuple[str, ...], words: dict[str, object], said: str
) -> None:
    units = {f"unit-{i}": device for i, device in enumerate(devices)}
    placement = Placement("m", "f", "folded", (), units, members={})
    assert re.fullmatch(said, describe_saved(placement, **words))  # type: ignore[arg-type]


def test_a_placement_keeps_the_fingerprint_of_own_inputs(tmp_path: Path) -> None:
    image = {"image": np.zeros((1, 3, 64, 64))}
    own, plain = (extract(load_model("tiny"), inputs=inputs) for inputs in (image, None))
    other = extract(load_model("tiny"), inputs={"image": np.ones((1, 3, 64, 64))})
    problem = problem_on(own, granularity="op")
    placement = Placement.from_assignment(problem, problem.single(0))
    placement.save(tmp_path / "placement.json")
    loaded = Placement.load(tmp_path / "placement.json")
    assert loaded.inputs == own.request.own.fingerprint != ""
    assert loaded.describe_inputs(own.request.own.fingerprint) == []
    assert "with generated inputs: give the same by --inputs" in loaded.describe_inputs("")[0]
    assert "with other inputs" in loaded.describe_inputs(other.request.own.fingerprint)[0]
    assert loaded.assignment(problem_on(plain, granularity="op")).tolist() == [0] * problem.n_units
