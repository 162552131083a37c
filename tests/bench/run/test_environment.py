"""Environments that can be made again, and those that stay open."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from placement_gym.backends.single_devices import SingleDeviceResults
from placement_gym.backends.wrapper import CachedBackend
from placement_gym.bench.run.environment import BenchEnv, BenchEnvs
from placement_gym.models import load

SIM = "DevicePlacementSim-v0"


def test_remade_environments_leave_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with BenchEnvs() as envs:
        envs.get(SIM, {"model": "tiny"}).env.reset()
        with pytest.raises(TypeError):
            envs.get(SIM, {"model": load("tiny")})
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
        monkeypatch.setattr(SingleDeviceResults, "of", lambda backend, anew: again)
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
