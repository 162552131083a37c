"""Environments that can be made again, and those that stay open."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from placement_gym.backends import CachedBackend, SingleDeviceResults
from placement_gym.bench.run import BenchEnv, BenchEnvs, make_portable
from placement_gym.hardware import DeviceSpec
from placement_gym.models import load_model
from placement_gym.problem.costs import CostGraph
from placement_gym.view import build_problem

SIM = "DevicePlacementSim-v0"


def test_remade_environments_leave_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with BenchEnvs() as envs:
        envs.get(SIM, {"model": "tiny"}).env.reset()
        with pytest.raises(TypeError):
            envs.get(SIM, {"model": load_model("tiny")})
    assert not [*tmp_path.iterdir()]


def test_the_least_recently_used_environment_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(BenchEnv, "close", lambda self: closed.append(self.env_kwargs["model"]))
    monkeypatch.setattr(BenchEnvs, "size", 2)
    with BenchEnvs() as envs:
        first = envs.get(SIM, {"model": "tiny"})
        envs.get(SIM, {"model": "tiny", "horizon": 2})
        assert envs.get(SIM, {"model": "tiny"}) is first
        envs.get(SIM, {"model": "synthetic-layered-16"})
        assert closed == ["tiny"]
        assert envs.get(SIM, {"model": "tiny"}) is first
    assert len(closed) == 3


def test_environments_are_closed_when_something_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(BenchEnv, "close", lambda self: closed.append(self.env_id))

    def fail() -> None:
        with BenchEnvs() as envs:
            envs.get(SIM, {"model": "tiny"})
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert closed == [SIM]


@pytest.mark.parametrize("measured", [True, False])
def test_noisy_single_devices_are_measured_again_for_every_seed(
    measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BenchEnvs() as envs:
        bench_env = envs.get(SIM, {"model": "tiny"})
        base, before = bench_env.base, bench_env.base.singles
        _ = base.reference, base.singles.best_speedups
        slower = [replace(m, latency_ms=2 * m.latency_ms) for m in before.measurements if m]
        again = SingleDeviceResults(tuple(slower), before.feasible)
        monkeypatch.setattr(SingleDeviceResults, "from_backend", lambda backend: again)
        monkeypatch.setattr(BenchEnv, "measured", property(lambda _: measured))
        bench_env.clear_caches()
        expected = again if measured else before
        assert base.singles is expected
        assert base.reference is expected.measurements[base.problem.reference_device]
        assert base.singles.best_speedups[0] == expected.fastest().speedup


def test_cleared_caches_hold_no_measurement(bench_env: BenchEnv) -> None:
    backend = CachedBackend(bench_env.base.backend)
    bench_env.base.backend = backend
    assignment = np.arange(bench_env.base.problem.n_units) % 2
    backend.evaluate(assignment)
    assert backend.evaluate(assignment).cached
    bench_env.finals.choose([assignment])
    bench_env.clear_caches()
    assert not bench_env.finals.finalists
    assert not backend.evaluate(assignment).cached


def test_inputs_in_memory_are_saved_and_identify_the_problem(tmp_path: Path) -> None:
    kwargs = {"model": "tiny", "inputs": {"image": np.zeros((1, 3, 64, 64))}}
    first = BenchEnv.make(SIM, make_portable(kwargs, tmp_path))
    assert first.env_kwargs["inputs"] == str(tmp_path / "inputs")
    again = BenchEnv.make(SIM, first.env_kwargs)
    plain = BenchEnv.make(SIM, {"model": "tiny"})
    assert first.origin == again.origin
    found, generated = (env.origin["model_fingerprint"] for env in (first, plain))
    assert found.partition("-")[0] == generated
    assert len(found) == len("-") + 2 * len(generated)


def test_graphs_and_costs_in_memory_are_saved_and_identify_the_problem(tmp_path: Path) -> None:
    graph = CostGraph(
        ms=[[1, 2]] * 3, edges=[], edge_bytes=[], devices=["CPU", "GPU"], gb_per_s=1, name="own"
    )
    costs = graph.costs([DeviceSpec("CPU"), DeviceSpec("GPU")])
    first = BenchEnv.make(SIM, make_portable({"model": graph, "costs": costs}, tmp_path))
    assert first.env_kwargs["model"] == str(tmp_path / "own.json")
    assert first.env_kwargs["costs"] == str(tmp_path / "costs.json")
    assert BenchEnv.make(SIM, first.env_kwargs).origin == first.origin


def test_arguments_of_version_0_3_state_sizes(tmp_path: Path) -> None:
    x = ops.parameter([-1, 8], np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    ov.save_model(ov.Model([ops.result(ops.relu(x))], [x], "dynamic"), tmp_path / "x.xml")
    kwargs = {"model": str(tmp_path / "x.xml"), "data_shapes": {"x": [3, 8]}}
    made = BenchEnv.make(SIM, kwargs)
    assert made.base.problem.units.graph.request.data_shapes == {"x": (3, 8)}
    assert made.env_kwargs["data_shapes"] == {"x": [3, 8]}  # rows name what their study names
    assert build_problem(kwargs).problem.units.graph.shapes[0][0] == 3
