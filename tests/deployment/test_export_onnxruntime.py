"""Exports for ONNX Runtime: its nodes name the devices of the plan, and sessions keep to them."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from graphs import problem_on
from onnx_files import Writer

from placement_gym.base import UserError
from placement_gym.cli import main
from placement_gym.deployment import export_for_onnxruntime
from placement_gym.graph import extract
from placement_gym.hardware import parse_devices
from placement_gym.models import load_model
from placement_gym.problem import Placement

EXPECTED = {
    "first": "CPU", "relu": "CPU", "same": "CPU",
    "shape": "GPU", "flat": "GPU", "second": "GPU",
}  # fmt: skip
"""Device of each node: ``same`` and ``shape`` are no operators of OpenVINO's."""


def save_chain(path: Path) -> Path:
    """Two layers; an identity between them, and a shape that is computed without data."""
    writer, rng = Writer(), np.random.default_rng(0)
    weights = rng.standard_normal((2, 32, 32)).astype(np.float32)
    writer.add("MatMul", ["x", writer.constant("w0", weights[0])], "first")
    writer.add("Relu", ["first"], "relu")
    writer.add("Identity", ["relu"], "same")
    writer.add("Shape", ["same"], "shape")
    writer.add("Reshape", ["same", "shape"], "flat")
    writer.add("MatMul", ["flat", writer.constant("w1", weights[1])], "second")
    return writer.save(path, {"x": [1, 32]}, {"second": [1, 32]}, opset=17)


def place(path: Path, devices: str = "CPU,GPU") -> Placement:
    """The second layer on the second device."""
    problem = problem_on(extract(load_model(path), "folded"), parse_devices(devices))
    second = [name in ("flat", "second") for name in problem.units.names]
    return Placement.from_assignment(problem, np.array(second, dtype=np.int64))


def read_annotations(path: Path) -> dict[str, str]:
    graph = onnx.load(path, load_external_data=False).graph
    return {
        node.name: prop.value
        for node in graph.node
        for prop in node.metadata_props
        if prop.key == "layer_ann"
    }


def test_every_node_names_the_device_of_its_unit(tmp_path: Path) -> None:
    path = save_chain(tmp_path / "chain.onnx")
    for _ in range(2):  # a second export replaces the first
        files = export_for_onnxruntime(place(path), tmp_path / "out", path)
    model, *weights, script, planned = files
    assert sorted(files) == sorted((tmp_path / "out").iterdir())
    assert [file.stat().st_mode for file in weights] == [model.stat().st_mode]
    assert read_annotations(model) == json.loads(planned.read_text()) == EXPECTED
    onnx.checker.check_model(model)
    assert "'CPU': 'CPUExecutionProvider', 'GPU': 'gpu'" in script.read_text()


def test_nodes_without_a_name_get_one(tmp_path: Path) -> None:
    nameless = onnx.load(save_chain(tmp_path / "chain.onnx"))
    for node in nameless.graph.node:
        node.name = ""
    onnx.save(nameless, tmp_path / "nameless.onnx")
    path = tmp_path / "nameless.onnx"
    *_, planned = export_for_onnxruntime(place(path), tmp_path / "out", path)
    found = json.loads(planned.read_text())
    assert {name.split("/")[1]: device for name, device in found.items()} == EXPECTED


@pytest.mark.parametrize("devices", ["cpu-testbed", "CPU,GPU"])
def test_a_session_records_the_plan_or_the_script_names_strays(
    devices: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime", minversion="1.25")
    path = save_chain(tmp_path / "chain.onnx")
    *_, script, planned = export_for_onnxruntime(place(path, devices), tmp_path / "out", path)
    program = runpy.run_path(str(script), run_name="__main__")
    kept, strays = program["compare"](program["session"])
    recorded = program["read_recorded"](program["session"])
    # The CPU package has no other execution provider: what is planned for a GPU is found out.
    on_gpu = {name for name, one in json.loads(planned.read_text()).items() if one == "GPU"}
    assert strays == dict.fromkeys(on_gpu & recorded.keys(), "CPUExecutionProvider")
    assert kept == recorded.keys() - on_gpu
    assert bool(strays) == (devices == "CPU,GPU")
    said = capsys.readouterr().out
    assert f"{len(kept)} nodes are where they were planned, {len(strays)} are not" in said
    assert "median of 20 inferences on zeros" in said


def test_what_onnx_runtime_cannot_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_chain(tmp_path / "chain.onnx")
    placement = place(path)
    placement.save(tmp_path / "plan.json")
    words = ["export", str(tmp_path / "plan.json"), "--out", str(tmp_path / "out")]
    assert main([*words, "--to", "onnxruntime", "--model", "resnet"]) == 2
    assert "runs ONNX files, not 'resnet'" in capsys.readouterr().err
    assert main([*words, "--to", "onnxruntime", "--model", str(path), "--requests", "2"]) == 2
    assert "--requests is for --to openvino" in capsys.readouterr().err
    gpus = [replace(placement.devices[1], name=f"GPU.{number}") for number in range(2)]
    units = dict(zip(placement.units, ["GPU.0", *["GPU.1"] * len(placement.units)], strict=False))
    with pytest.raises(UserError, match="one execution provider of each type"):
        export_for_onnxruntime(replace(placement, devices=tuple(gpus), units=units), tmp_path, path)
    assert not (tmp_path / "out").exists()
