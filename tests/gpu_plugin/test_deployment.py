"""What is done with a placement, on OpenVINO's own GPU plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from gpu_models import make_problem, make_small

from placement_gym import load_model
from placement_gym.deployment import compile_model, compile_stages, export_placement, plan, profile
from placement_gym.hardware import DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.problem import Placement

pytestmark = pytest.mark.gpu_plugin

DEVICES = (DeviceSpec("CPU"), DeviceSpec("GPU"))
SHORT = {"granularity": "op", "warmup": 0, "repeats": 2, "horizon": 2}


@pytest.fixture
def small(tmp_path: Path) -> str:
    """The file of the small model."""
    path = tmp_path / "small.xml"
    ov.save_model(make_small(), path, compress_to_fp16=False)
    return str(path)


@pytest.fixture
def split(small: str) -> Placement:
    """The small model, its MatMul alone on the GPU."""
    _, problem = make_problem(ov.Core(), DEVICES, load_model(small))
    return Placement.from_assignment(problem, np.array([0, 0, 1]))


def test_a_pipeline_computes_what_the_cpu_does(split: Placement, small: str) -> None:
    core, model = ov.Core(), load_model(small)
    x = np.random.default_rng(1).normal(size=(4, 16)).astype(np.float32)
    expected = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
    staged = compile_stages(core, model, split)
    assert [stage.name for stage in staged.stages.values()] == ["stage 0 on CPU", "stage 1 on GPU"]
    request = staged.create_infer_request()
    request.infer(x)
    np.testing.assert_allclose(request.output_tensors[0].data, expected, rtol=1e-4, atol=1e-5)
    found: dict[int, np.ndarray] = {}
    queue = ov.AsyncInferQueue(compile_model(core, model, split), 3)

    def keep(request: ov.InferRequest, number: int) -> None:
        found[number] = request.output_tensors[0].data.copy()

    queue.set_callback(keep)
    for number in range(4):
        queue.start_async({0: x}, number)
    queue.wait_all()
    for outputs in found.values():
        np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_exported_split_runs_by_openvino_alone(
    split: Placement, small: str, tmp_path: Path
) -> None:
    export_placement(split, tmp_path / "export", small)
    script = [sys.executable, str(tmp_path / "export" / "run.py")]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert printed.startswith("submodels: 2, on CPU, GPU\n")


@pytest.mark.slow
def test_environments_of_a_vector_measure_in_turn(small: str) -> None:
    envs = gym.make_vec("DevicePlacement-v0", num_envs=2, model=small, devices="CPU,GPU", **SHORT)
    envs.reset(seed=0)
    info = envs.step(np.array([[0, 0, 1], [1, 1, 1]]))[4]
    envs.close()
    assert info["feasible"].all()
    assert (info["latency_ms"] > 0.0).all()


@pytest.mark.slow
def test_a_plan_and_a_profile_measure_the_gpu_plugin(small: str, tmp_path: Path) -> None:
    planned = plan(small, DEVICES, out=tmp_path, quiet=True)
    assert {row["label"] for row in planned["rows"]} >= {"CPU alone", "GPU alone"}
    profiled = profile(ModelSpec(small, "fused"), DEVICES, out=tmp_path, quiet=True)
    assert [device["name"] for device in profiled["devices"]] == ["CPU", "GPU"]
