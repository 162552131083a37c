# White-box tests of deployment, hardware
"""Plans for integrated devices: what they report is no limit, and around it more is measured."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cliff import GIB, N_UNITS, CliffEngine, heavy_problem, laptop

from placement_gym.backends.measured import holds_model
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import UserError
from placement_gym.cli import main
from placement_gym.deployment.candidates import Candidate, add_variants, propose_candidates
from placement_gym.deployment.plan_report import check_room, describe_fit
from placement_gym.hardware import DeviceSpec, machine, resolve_devices
from placement_gym.problem import Problem


@pytest.fixture(autouse=True)
def memory_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "count_host_bytes", lambda: 32 * GIB)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def integrated(*devices: str, model_bytes: int = 10 * GIB) -> Problem:
    return heavy_problem(resolve_devices(None, "measured", laptop(*devices)), model_bytes)


def plan_words(
    problem: Problem,
    cliff: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> tuple[str, CliffEngine]:
    """What ``plan`` prints, and the engine that measured for it."""
    engine = CliffEngine(problem, cliff)
    monkeypatch.setattr(
        "placement_gym.deployment.planning.build_divisible_backend", lambda *_, **__: (engine, [])
    )
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["plan", "--model", "tiny", "--out", str(tmp_path)]) == 0
    return capsys.readouterr().out, engine


def test_model_beyond_an_integrated_gpus_memory_runs_on_it_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    problem = integrated()
    out, engine = plan_words(problem, 1.0, monkeypatch, capsys, tmp_path)
    said = " ".join(out.split())
    assert said.startswith("Saved: GPU alone")
    assert "cannot hold" not in said
    assert re.search(
        "10737.4 MB, 2147.5 MB more than the 8589.9 MB that GPU reports. This is not a limit", said
    )
    assert re.search("GPU alone puts 10737.4 MB on GPU.* 2147.5 MB", said)
    assert [1] * N_UNITS in engine.measured
    for label in ("milp, within reported memory", "less on GPU", "more on GPU"):
        assert label in said


def test_beyond_a_cliff_the_split_within_what_is_reported_wins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out, _ = plan_words(integrated(), 6.0, monkeypatch, capsys, tmp_path)
    said = " ".join(out.split())
    assert said.startswith("Saved: a split")
    assert "puts" not in said


def test_an_integrated_gpu_is_profiled_alone_whatever_it_reports() -> None:
    assert holds_model(integrated(), 1)
    discrete = heavy_problem((DeviceSpec("CPU"), DeviceSpec("GPU", memory_bytes=8 * GIB)))
    assert not holds_model(discrete, 1)
    assert re.match("GPU cannot hold .*10737.4 MB", describe_fit(discrete)[0])


def test_the_memory_of_the_host_counts_once() -> None:
    with pytest.raises(UserError, match=r"CPU, GPU and NPU have room for 34359\.7 MB.* 8589\.9 MB"):
        check_room(integrated("CPU", "GPU", "NPU", model_bytes=40 * GIB))
    check_room(integrated("CPU", "GPU", "NPU", model_bytes=30 * GIB))


def twin_of(problem: Problem) -> SimulatedBackend:
    return SimulatedBackend(problem, CliffEngine(problem).costs)


def split_at(problem: Problem, n_on_gpu: int) -> Candidate:
    return Candidate("split", (np.arange(N_UNITS) < n_on_gpu).astype(np.int64), 1.0)


@pytest.mark.parametrize(("reported", "n_on_gpu"), [(True, [15, 12, 19]), (False, [15, 12])])
def test_a_split_that_nearly_fills_a_device_has_variants(
    reported: bool, n_on_gpu: list[int]
) -> None:
    limit = {"reported_bytes" if reported else "memory_bytes": 18 * 250}
    problem = heavy_problem((DeviceSpec("CPU"), DeviceSpec("GPU", **limit)), 20 * 250)
    found = add_variants(twin_of(problem), [split_at(problem, 17)])[1:]
    assert [int(one.assignment.sum()) for one in found] == n_on_gpu
    assert all("on GPU" in one.label for one in found)


def test_a_device_that_a_model_nearly_fills_alone_has_variants() -> None:
    problem = heavy_problem((DeviceSpec("CPU"), DeviceSpec("GPU", memory_bytes=5000)), 20 * 249)
    alone = Candidate("GPU alone", problem.single(1), 1.0)
    variants = add_variants(twin_of(problem), [alone])[1:]
    assert [one.label for one in variants] == [
        "GPU alone, 10 % less on GPU",
        "GPU alone, 25 % less on GPU",
    ]
    assert [int(one.assignment.sum()) for one in variants] == [18, 15]


def test_a_split_that_leaves_room_has_none() -> None:
    problem = heavy_problem((DeviceSpec("CPU"), DeviceSpec("GPU", memory_bytes=5000)), 20 * 250)
    one = split_at(problem, 17)  # 4250 of 5000 bytes
    assert add_variants(twin_of(problem), [one]) == [one]


def test_candidates_fill_an_integrated_gpu_to_what_it_reports() -> None:
    problem = integrated()
    found = {one.label: one for one in propose_candidates(twin_of(problem), 5.0)[0]}
    modest = found["milp, within reported memory"].assignment
    assert problem.memory_bytes(modest)[1] <= 8 * GIB
    assert "GPU alone" in found
