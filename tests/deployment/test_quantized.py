"""A quantised model from a file to a program of its own."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from quantized import write_onnx
from testbed import make

from placement_gym.cli import main
from placement_gym.deployment import plan
from placement_gym.models import load_model
from placement_gym.problem import Placement


def write_ir(path: Path) -> None:
    ov.save_model(load_model("cnn-int8"), path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "write"), [("quantized.onnx", write_onnx), ("quantized.xml", write_ir)]
)
def test_quantised_file_is_planned_exported_viewed_and_evaluated(
    name: str, write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / name)
    document = plan(name, "cpu-testbed", out="results", export="deployed", quiet=True)
    assert not [row["error"] for row in document["rows"] if row["error"]]
    script = runpy.run_path("deployed/run.py")
    assert script["compile_model"](ov.Core()).inputs
    for command in ("view", "evaluate"):
        assert main([command, document["file"], "--model", name, "-q"]) == 0


@pytest.mark.slow
def test_tolerance_of_the_command_line_reaches_the_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, file = make("cnn-int8", graph="raw", granularity="op").problem, tmp_path / "split.json"
    without_rounding = np.array([int("conv1" in name) for name in problem.units.names])
    Placement.from_assignment(problem, without_rounding, graph="raw").save(file)
    command = ["evaluate", str(file), "-m", "cnn-int8", "-q", "--tolerance", "1e-12"]
    assert main(command) != 0
    assert "more than 1.0e-12" in capsys.readouterr().err
