"""What is remembered from one session to the next, and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from fakes import CPU_GPU, LIMITED, assignment, diamond_problem
from scripted_engine import Answer, ScriptedEngine
from testbed import CHESSBOARD, make, step

from placement_gym.arrays import IntArray
from placement_gym.backends.failures import EngineFailureError, Kind
from placement_gym.backends.measured import conditions, health, measuring
from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.disk_cache import DiskCachedBackend, compute_key, store_path
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.protocol import Measurement
from placement_gym.bench.compare import compare
from placement_gym.bench.study.replay import make_replay_kwargs
from placement_gym.bench.study.runner import run_study
from placement_gym.bench.study.spec import Study
from placement_gym.devices import DeviceSpec
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import EngineError

MIXED = assignment([0, 1, 1, 0])
REFUSED = EngineFailureError(Kind.INFEASIBLE, "no such operator")
DEAD = EngineFailureError(Kind.DEAD, "killed by SIGSEGV")
INVALID = EngineFailureError(Kind.INVALID_VALUE, "-1 ms")
BUSY = EngineFailureError(Kind.TRANSIENT, "out of memory")
SHAKY = Measurement(5.0, 10.0, 7.0, noise=0.02)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, on a machine without load."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(measuring, "sleep", lambda seconds: None)
    monkeypatch.setattr(health.os, "getloadavg", lambda: (0.0, 0.0, 0.0))


def begin_session(*answers: Answer, **changes: Any) -> tuple[DiskCachedBackend, ScriptedEngine]:
    """A new session, whose engine gives these answers and has other attributes."""
    engine = ScriptedEngine(answers or [10.0])
    for name, value in changes.items():
        setattr(engine, name, value)
    return DiskCachedBackend(engine), engine


def test_a_later_session_gets_the_measurement_with_its_own_reference_and_no_time() -> None:
    first = begin_session(Measurement(5.0, 10.0, 5.5, compile_s=1.0, measure_s=2.0))[0]
    measured = first.evaluate(MIXED)
    later, engine = begin_session(20.0)
    found = later.evaluate(MIXED)
    assert found == replace(measured, cached=True, compile_s=0.0, measure_s=0.0)
    assert engine.log == []
    assert (measured.cached, later.evaluate(assignment([1, 1, 1, 1])).cached) == (False, False)


def test_the_key_of_a_placement_does_not_depend_on_its_array() -> None:
    placed = assignment([0, 1, 1, 0, 2])
    assert compute_key(placed) == compute_key(placed.astype("int8")) != compute_key(placed[::-1])
    assert compute_key(placed[::-1]) == compute_key(placed[::-1].copy())


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ([10.0], True),
        ([REFUSED], True),
        ([DEAD, DEAD], False),
        ([INVALID] * 3, False),
        ([SHAKY], False),
    ],
)
def test_results_and_refusals_are_kept_and_what_may_pass_or_is_doubtful_is_not(
    answers: list[Answer], kept: bool
) -> None:
    first = begin_session(*answers)[0].evaluate(MIXED)
    later, engine = begin_session(10.0)
    found = later.evaluate(MIXED)
    assert found.cached == kept
    assert ("measure" in engine.log) != kept
    assert (found.error, found.doubt) == ((first.error, "") if kept else ("", ""))


def test_a_transient_failure_is_not_kept() -> None:
    with pytest.raises(EngineError, match="out of memory"):
        begin_session(BUSY)[0].evaluate(MIXED)
    assert not begin_session()[0].evaluate(MIXED).cached


def with_property(name: str, value: Any) -> DeviceSpec:
    return DeviceSpec("GPU", properties={name: value})


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": TimingProtocol(repeats=11)},
        {"alias": True},
        {"problem": diamond_problem((CPU_GPU[0], with_property("NUM_STREAMS", 2)))},
        {"problem": diamond_problem((CPU_GPU[0], DeviceSpec("GPU", precision="bf16")))},
        {"problem": diamond_problem((*CPU_GPU, DeviceSpec("NPU")))},
    ],
    ids=["protocol", "split", "property", "precision", "devices"],
)
def test_a_change_of_protocol_or_problem_misses(changes: dict[str, Any]) -> None:
    begin_session()[0].evaluate(MIXED)
    assert not begin_session(**changes)[0].evaluate(MIXED).cached
    assert begin_session()[0].evaluate(MIXED).cached


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (ov, "__version__", "2099.1"),
        (conditions.platform, "node", lambda: "another"),
        (conditions, "usable_cores", lambda: 1000),
    ],
    ids=["version", "machine", "cores"],
)
def test_so_does_another_machine_or_version_of_openvino(
    place: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_session()[0].evaluate(MIXED)
    monkeypatch.setattr(place, name, value)
    assert not begin_session()[0].evaluate(MIXED).cached


def test_a_kept_measurement_does_not_lift_the_memory_limit() -> None:
    problem = diamond_problem(LIMITED)
    everything = assignment([1, 1, 1, 1])
    assert begin_session(problem=problem)[0].evaluate_ignoring_limits(everything).feasible
    assert not begin_session(problem=problem)[0].evaluate(everything).feasible


def test_finalists_are_measured_anew() -> None:
    begin_session()[0].evaluate(MIXED)
    later, engine = begin_session(20.0)
    assert later.remeasure([MIXED])[0].reference_ms == 20.0
    assert engine.log == ["measure"]
    assert later.evaluate(MIXED).reference_ms == 10.0


def test_devices_alone_are_measured_anew_on_request_and_then_remembered() -> None:
    backends = [begin_session(10.0)[0], begin_session(20.0)[0]]
    envs = [DevicePlacementEnv(backend) for backend in backends]
    assert [env.reference.reference_ms for env in envs] == [10.0, 10.0]
    envs[1].measure_singles_again()
    assert [env.reference.reference_ms for env in envs] == [10.0, 20.0]
    alone = envs[1].problem.single(0)
    assert backends[1].evaluate(alone).reference_ms == 20.0
    assert begin_session(30.0)[0].evaluate(alone).reference_ms == 10.0, "the file is unchanged"


def test_validation_makes_its_environments_without_the_file() -> None:
    row = {"env_kwargs": {"model": "tiny", "cache": "disk", "repeats": 4}}
    assert make_replay_kwargs(row) == {"model": "tiny", "cache": True, "repeats": 4}
    without = {"env_kwargs": {"model": "tiny", "cache": False}}
    assert make_replay_kwargs(without) == without["env_kwargs"]


def test_an_environment_remembers_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "describe_tail", lambda measurement: "")
    first, again = (step(make(cache="disk"), CHESSBOARD) for _ in range(2))
    assert store_path().is_file()
    assert store_path().is_relative_to(tmp_path)
    assert (first["cached"], again["cached"]) == (False, True)
    assert (again["latency_ms"], again["speedup"]) == (first["latency_ms"], first["speedup"])


def test_comparisons_and_studies_share_the_file_and_measure_their_finalists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    finalists: list[int] = []

    def measure(backend: MeasuredBackend, placed: IntArray) -> Measurement:
        measured.append(compute_key(placed))
        ms = 5.0 if placed.any() else 10.0
        return Measurement(ms, 10.0, 1.1 * ms, noise=0.01)

    def remeasure(backend: MeasuredBackend, placements: list[IntArray]) -> list[Measurement]:
        finalists.append(len(placements))
        return [Measurement(5.0, 10.0, 5.5, noise=0.01) for _ in placements]

    monkeypatch.setattr(MeasuredBackend, "measure_once", measure)
    monkeypatch.setattr(MeasuredBackend, "remeasure", remeasure)
    common = {"agents": ["random"], "seeds": [0], "budget": 4}
    settings = {"cache": "disk", "isolate": False}
    problem = {"model": "tiny", "devices": "cpu-testbed"}
    compare(**problem, **common, env_kwargs=settings, out=tmp_path / "compared", quiet=True)
    assert len(measured) == len(set(measured)) > 4
    assert finalists
    measured.clear(), finalists.clear()
    problem = {"models": ["tiny"], "devices": ["cpu-testbed"], "env": "DevicePlacement-v0"}
    study = Study.of(problem | common | {"env_kwargs": settings})
    (row,) = run_study(study, tmp_path / "study", "serial", quiet=True)
    assert row["error"] == ""
    n_units = len(row["placement"])
    alone = [compute_key(np.full(n_units, device)) for device in (0, 1)]
    assert measured == alone, "with every seed devices alone are measured anew, and only they"
    assert finalists
