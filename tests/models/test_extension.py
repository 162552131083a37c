"""Operators of users' own libraries, in every process that reads a model."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops
from processes import run_python

from placement_gym.base import UserError
from placement_gym.deployment import compile_model, evaluate_placement, export_placement
from placement_gym.models import ModelSpec, UnsupportedModelError, load_model
from placement_gym.problem import Placement

SOURCE = Path(__file__).parents[1] / "support" / "half_sine.cpp"
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler of C++")


def save_model(folder: Path) -> Path:
    """A model with two operators that OpenVINO lacks, as a file."""
    rng = np.random.default_rng(0)
    x = ops.parameter([4, 16], np.float32, name="x")
    out: ov.Node = x
    for layer in range(2):
        matrix = ops.constant(rng.normal(0.0, 0.4, (16, 16)).astype(np.float32))
        product = ops.matmul(out, matrix, False, False, name=f"product{layer}")
        out = ops.sin(product, name=f"half{layer}")
    file = folder / "custom.xml"
    ov.save_model(ov.Model([ops.result(out)], [x], "custom"), file, compress_to_fp16=False)
    own = file.read_text().replace('"Sin" version="opset1"', '"HalfSine" version="custom"')
    file.write_text(own)
    return file


def build_library(folder: Path) -> Path:
    package, library = Path(ov.__file__).parent, folder / "libhalf_sine.so"
    (openvino,) = (package / "libs").glob("libopenvino.so.*")
    command = ["g++", "-std=c++17", "-shared", "-fPIC", f"-I{package / 'include'}", str(SOURCE)]
    libraries = [str(openvino), f"-Wl,-rpath,{openvino.parent}", "-o", str(library)]
    subprocess.run([*command, *libraries], check=True, timeout=120)
    return library


def test_an_operator_that_is_missing_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"HalfSine.* --extension FILE"):
        load_model(save_model(tmp_path))


def test_a_library_that_is_missing_or_none_is_named(tmp_path: Path) -> None:
    file = save_model(tmp_path)
    with pytest.raises(UserError, match=r"no extension '.*gone\.so'"):
        load_model(file, extension=tmp_path / "gone.so")
    with pytest.raises(UserError, match=r"cannot load the extension .*: build it with the headers"):
        load_model(file, extension=file)


def test_other_processes_get_the_path_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = ModelSpec("tiny", extension="lib.so")
    with spec.as_file() as values:
        assert ModelSpec(**json.loads(json.dumps(values))) == spec
        assert values["extension"] == str(tmp_path.resolve() / "lib.so")


@pytest.mark.slow
@needs_compiler
def test_a_model_with_own_operators_is_split_measured_and_exported(tmp_path: Path) -> None:
    file, library = save_model(tmp_path), build_library(tmp_path)
    options: dict[str, Any] = {"model": file, "extension": library, "granularity": "op"}
    twin = gym.make("DevicePlacementSim-v0", **options)
    assert np.isfinite(twin.reset(seed=0)[1]["latency_ms"])
    pair = {"devices": "cpu-testbed-pair", "warmup": 1, "repeats": 2}
    with gym.make("DevicePlacement-v0", **options, **pair) as env:
        env.reset(seed=0)
        info = env.step(np.array([0, 0, 1, 1]))[4]
        assert (info["error"], info["n_submodels"]) == ("", 2)
        placement = Placement.from_assignment(env.unwrapped.problem, np.array([0, 1, 1, 0]))  # type: ignore[attr-defined]
    assert evaluate_placement(file, placement, quiet=True, extension=library)["latency_ms"] > 0
    core = ov.Core()
    core.add_extension(str(library))
    model, x = core.read_model(file), np.ones((4, 16), np.float32)
    single = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
    assert np.allclose(compile_model(core, model, placement)(x)[0], single, atol=1e-6)
    folder = tmp_path / "export"
    assert folder / library.name in export_placement(placement, folder, file, extension=library)
    library.unlink()
    program = f"import runpy; runpy.run_path('{folder}/run.py', run_name='__main__')"
    assert "submodels: 3" in run_python(program, "-I")
