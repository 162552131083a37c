# White-box tests of bench.report
"""Six attacks by files from elsewhere: none runs code, writes elsewhere or forges what is shown."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
import torch
from learned import hsdag, vectorize_toy, weights
from markdown_it import MarkdownIt
from rich.console import Console
from safetensors.torch import save_file

import placement_gym
from agents.common import REINFORCE, load_weights, read_safetensors, save_weights
from placement_gym.base import UserError
from placement_gym.bench.report import comparison_table, format_markdown
from placement_gym.bench.report.document import (
    code_span,
    format_bold,
    format_heading,
    format_table,
)
from placement_gym.bench.run import make_portable
from placement_gym.cli import main
from placement_gym.hardware import DeviceSpec, parse_devices
from placement_gym.models import load_model
from placement_gym.problem import Placement

ENV = "DevicePlacementSim-v0"
CODE = "import pathlib\npathlib.Path({marker!r}).touch()\ndef make(env, seed):\n    return None\n"
FORGED = "[red]x[/] <img src=x onerror=alert(1)> | ![a](b) `c` \x1b]0;own\x07\n# top"


class Bomb:
    """An object whose unpickling makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that code of an attacker makes."""
    return tmp_path / "pwned"


@pytest.fixture
def own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder, and a module path that is put back."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folder
    sys.modules.pop("evil", None)


def pickled_model(path: Path, marker: Path) -> Path:
    """A model of SB3 whose file runs code when SB3 loads it."""
    hsdag(vectorize_toy()).save(path)
    with zipfile.ZipFile(path) as opened:
        entries = {name: opened.read(name) for name in opened.namelist()}
    data = json.loads(entries["data"])
    code = pickle.dumps(Bomb(marker))
    data["policy_class"][":serialized:"] = __import__("base64").b64encode(code).decode()
    entries["data"] = json.dumps(data).encode()
    with zipfile.ZipFile(path, "w") as opened:
        for name, content in entries.items():
            opened.writestr(name, content)
    return path


def test_a_strangers_weights_run_no_code(tmp_path: Path, marker: Path) -> None:
    path = pickled_model(tmp_path / "model.zip", marker)
    with pytest.raises(UserError):
        load_weights(hsdag(vectorize_toy()), path)
    assert not marker.exists()
    with pytest.raises(TypeError, match="not callable"):
        REINFORCE.load(path)
    assert marker.exists()  # else nothing was tried


def test_weights_of_ours_hold_numbers_alone(tmp_path: Path) -> None:
    model, path = hsdag(vectorize_toy()), tmp_path / "model.safetensors"
    save_weights(model, path)
    arrays = read_safetensors(path)
    assert path.stat().st_size < sum(array.nbytes for array in arrays.values()) + 50_000
    assert all(array.dtype.kind in "biuf" for array in arrays.values())
    other = hsdag(vectorize_toy())
    load_weights(other, path)
    assert (weights(other) == weights(model)).all()


def test_weights_of_another_model_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(hsdag(vectorize_toy()), path)
    other = REINFORCE("MultiInputPolicy", vectorize_toy())
    before = weights(other)
    with pytest.raises(UserError, match=r"model\.safetensors does not fit this policy"):
        load_weights(other, path)
    assert (weights(other) == before).all()


Arrays = dict[str, Any]
FORGERIES: dict[str, Callable[[str, Arrays], object]] = {
    "weights are nan": lambda name, a: a[name].fill(np.nan),
    "weights are cut": lambda name, a: a.update({name: a[name][:1]}),
    "weights are missing": lambda name, a: a.pop(name),
    "weights of another name": lambda name, a: a.update({"strange": a.pop(name)}),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES.keys())
def test_forged_weights_change_nothing(
    forge: Callable[[str, Arrays], object], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(hsdag(vectorize_toy()), path)
    arrays = read_safetensors(path)
    forge("networks.placer.0.weight", arrays)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(one)) for name, one in arrays.items()}
    save_file(tensors, path)
    other = hsdag(vectorize_toy())
    before = weights(other)
    with pytest.raises(UserError, match=r"model\.safetensors does not fit this policy"):
        load_weights(other, path)
    assert (weights(other) == before).all()


def test_the_working_folder_is_searched_for_named_code_alone(
    own_path: Path, marker: Path, tmp_path: Path
) -> None:
    """A module that some library looks for and does not find must not come from this folder."""
    (own_path / "evil.py").write_text(CODE.format(marker=str(marker)))
    out = ["--out", str(tmp_path / "out")]
    compare = ["compare", "--env", ENV, "--model", "tiny", "--budget", "2", *out]
    assert main([*compare, "--agents", "random"]) == 0
    assert str(own_path) not in sys.path
    assert not marker.exists()
    main([*compare, "--agents", "evil:make"])
    assert sys.path[-1] == str(own_path)
    assert marker.exists()


def test_a_study_runs_no_code_that_is_not_trusted(
    own_path: Path, marker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_path / "evil.py").write_text(CODE.format(marker=str(marker)))
    study = own_path / "study.yaml"
    study.write_text(f"env: {ENV}\nmodels: [tiny]\nagents: ['evil:make']\nbudget: 2\nseeds: 1\n")
    command = ["bench", "run", str(study), "--out", str(tmp_path / "out")]
    assert main(command) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "it runs its own code, evil:make" in printed
    assert "--trust" in printed
    assert main([*command, "--dry-run"]) == 0
    assert not marker.exists()
    assert main([*command, "--trust", "--executor", "serial"]) == 1  # the agent has no predict
    assert marker.exists()


@pytest.mark.parametrize("study", ["!!python/object/apply:os.system [id]", "!!python/name:os.a ''"])
def test_a_study_names_no_python_objects(study: str, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(f"env: {study}\n")
    with pytest.raises(UserError, match=r"tag .*python.*\n  in line 1"):
        placement_gym.Study.load(tmp_path / "study.yaml")


@pytest.mark.parametrize("name", ["../../X", "/X", "a/b", "..", "\x1b[2J", "x" * 5000])
def test_a_models_name_leaves_no_folder(name: str, tmp_path: Path) -> None:
    model = load_model("tiny")
    model.set_friendly_name(name)
    out = tmp_path / "a" / "b" / "out"
    document = placement_gym.compare(
        model, ["random"], ENV, "cpu+igpu", budget=2, out=out, quiet=True
    )
    assert len(document["rows"]) == 3
    inside = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert inside == {path for path in out.iterdir() if path.is_file()}
    assert Path(make_portable({"model": model}, out)["model"]).parent == out


def test_a_saved_model_is_the_one_in_memory(tmp_path: Path) -> None:
    again = ov.Core().read_model(make_portable({"model": load_model("tiny")}, tmp_path)["model"])
    assert len(again.get_ops()) == len(load_model("tiny").get_ops())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.bin", "tiny.xml"]


@pytest.mark.parametrize("key", ["CACHE_DIR", "WEIGHTS_PATH", "CONFIG_FILE", "LOG_LEVEL", "x"])
def test_a_placement_sets_no_property_that_names_a_file(key: str, tmp_path: Path) -> None:
    env = gym.make(f"placement_gym:{ENV}", model="tiny", devices="cpu-testbed")
    placement = placement_gym.placement_env(env).placement()
    values = placement.to_json()
    values["devices"][0]["properties"] = {key: str(tmp_path)}
    (tmp_path / "plan.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=rf"plan\.json.*CPU: property '{key}' is not allowed"):
        Placement.load(tmp_path / "plan.json")
    (tmp_path / "devices.json").write_text(json.dumps(values["devices"]))
    with pytest.raises(UserError, match="is not allowed"):
        parse_devices(str(tmp_path / "devices.json"))


@pytest.mark.parametrize("value", [{"a": 1}, ["x"], None, "x" * 1000])
def test_a_property_is_a_short_word_or_a_number(value: Any) -> None:
    with pytest.raises(UserError, match="NUM_STREAMS"):
        DeviceSpec("CPU", properties={"NUM_STREAMS": value})


def test_a_report_shows_forged_names_as_text() -> None:
    table = format_table([{"a": FORGED}])
    parts = [format_heading(FORGED, 1), format_bold(FORGED), table, code_span(FORGED)]
    text = "\n\n".join(parts)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    kinds = {child.type for token in tokens for child in token.children or []}
    assert kinds <= {"text", "text_special", "code_inline", "strong_open", "strong_close"}
    assert sum(token.type == "heading_open" for token in tokens) == 1
    assert not [token for token in tokens if token.type == "html_block"]
    assert "\x1b" not in text


def test_a_terminal_shows_forged_names_as_text(tmp_path: Path) -> None:
    agent = {"name": "random", "label": FORGED}
    document = placement_gym.compare("tiny", [agent], ENV, budget=2, out=tmp_path, quiet=True)
    document["rows"][-1]["error"] = document["verdict"] = FORGED
    screen = io.StringIO()
    Console(file=screen, width=300, force_terminal=True).print(comparison_table(document))
    assert "[red]x[/]" in screen.getvalue()
    assert "\x1b]0" not in screen.getvalue()
    tokens = MarkdownIt("commonmark").enable("table").parse(format_markdown(document))
    kinds = {child.type for token in tokens for child in token.children or []}
    assert not kinds & {"image", "link_open", "html_inline", "code_inline"}


def test_an_error_message_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--model", "tiny", "\x1b[2Jplan.json"]) == 2
    assert "\x1b" not in capsys.readouterr().err
