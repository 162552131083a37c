# White-box tests of backends.measured
"""A measured backend in a process of its own: the engine fails in every way, the run goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from fakes import assignment
from forks import start_fork
from resources import Resources
from testbed import CHESSBOARD, N_TINY, known_model, make

from placement_gym.backends import Measurement
from placement_gym.backends.measured import (
    MeasuredBackend,
    TimingProtocol,
    build_measured_backend,
    engine,
)
from placement_gym.backends.measured import backend as measured_backend
from placement_gym.backends.measured.engine import EngineProcess
from placement_gym.backends.measured.worker import Worker
from placement_gym.base import EngineError, UserError
from placement_gym.base.processes import ChildNotStartedError
from placement_gym.hardware import TESTBED
from placement_gym.models import ModelSpec, UnsupportedModelError

SUPPORT = Path(__file__).parents[2] / "support"
PROTOCOL = TimingProtocol(warmup=1, repeats=2, final_repeats=2, final_compiles=2)


def build(model: Any = "tiny", granularity: str = "colocated") -> MeasuredBackend:
    return build_measured_backend(ModelSpec(model, granularity), TESTBED, protocol=PROTOCOL)


@pytest.fixture(scope="module")
def shared() -> Iterator[MeasuredBackend]:
    """One whose process serves several tests."""
    backend = build()
    yield backend
    backend.close()


def pid_of(backend: MeasuredBackend) -> int:
    assert isinstance(backend.engine, EngineProcess)
    assert backend.engine.child is not None
    return backend.engine.child.process.pid


def test_environment_is_made_without_the_engine_in_this_process(
    monkeypatch: pytest.MonkeyPatch, inspections: Any
) -> None:
    inspections.cache_clear()
    here = make(granularity="fused").problem
    for method in ("query_model", "compile_model"):
        monkeypatch.setattr(ov.Core, method, lambda *_, **__: pytest.fail("it ran here"))
    backend = build(granularity="fused")
    assert backend.engine.child is None  # none starts before the first measurement
    there = backend.problem
    assert there.fingerprint() == here.fingerprint()
    assert (there.supported == here.supported).all()


def test_simulated_one_waits_for_nobody_who_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inspections: Any
) -> None:
    inspections.cache_clear()
    monkeypatch.setenv("PLACEMENT_GYM_LOCK", str(tmp_path))  # a folder, that nobody can lock
    monkeypatch.setattr(ov.Core, "compile_model", lambda *_, **__: pytest.fail("it ran here"))
    env = gym.make("DevicePlacementSim-v0", model="tiny", granularity="fused")
    assert env.unwrapped.problem.units.granularity == "fused"


def test_engine_crash_while_reading_spares_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(engine, "INSPECTOR", "crashing_inspector")
    monkeypatch.setattr(ov.Core, "read_model", lambda *_, **__: pytest.fail("it was read here"))
    path = tmp_path / "model.xml"
    ov.save_model(known_model("tiny"), path, compress_to_fp16=False)
    with pytest.raises(EngineError, match="the engine's process: killed by SIGSEGV"):
        build(path)


def test_a_file_that_openvino_cannot_read_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text("<net")
    with pytest.raises(UnsupportedModelError, match="OpenVINO cannot read"):
        build(path)


def test_process_that_cannot_start_is_retried(
    shared: MeasuredBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **options: Any) -> None:
        raise ChildNotStartedError("it cannot start: Resource temporarily unavailable")

    pauses: list[float] = []
    monkeypatch.setattr(measured_backend, "sleep", pauses.append)
    monkeypatch.setattr(engine, "Child", refuse)
    assert shared.engine.child is None
    with pytest.raises(EngineError, match="temporarily unavailable"):
        shared.evaluate(assignment(CHESSBOARD))
    assert len(pauses) == 4
    assert not shared.session.failures


def test_a_measurement_in_another_process_is_a_measurement(shared: MeasuredBackend) -> None:
    found = shared.evaluate(assignment(CHESSBOARD))
    alone = shared.evaluate(shared.problem.single(0))
    assert found.error == ""
    assert found.n_submodels == found.n_submodels_expected == 5
    assert 0.0 < found.latency_ms <= found.latency_p90_ms
    assert (found.n_transfers, found.transfer_bytes) == shared.problem.traffic(
        assignment(CHESSBOARD)
    )
    assert min(found.compile_s, found.measure_s, found.noise) > 0
    assert isinstance(found.memory_bytes, tuple)
    assert alone.n_submodels == 1


@pytest.mark.slow
def test_finalists_are_measured_in_a_process_of_their_own(shared: MeasuredBackend) -> None:
    shared.evaluate(assignment(CHESSBOARD))
    before = pid_of(shared)
    rounds: list[float] = []
    known: list[Sequence[Measurement]] = []
    shared.on_rounds = lambda done, measured: (rounds.append(done), known.append(measured))
    first, second = shared.remeasure([shared.problem.single(0), assignment(CHESSBOARD)])
    whole = [done for done in rounds if done == int(done)]
    assert whole == [1, 2, 3, 4][: shared.protocol.final_compiles]
    assert rounds == sorted(rounds)
    assert list(known[-1]) == [first, second]
    assert first.reference_ms == second.reference_ms
    assert pid_of(shared) == before
    shared.close()
    assert shared.evaluate(assignment(CHESSBOARD)).feasible


def test_the_other_questions_are_answered_there_too(shared: MeasuredBackend) -> None:
    assert shared.own_choice("AUTO").tolist() == [0] * N_TINY
    times = shared.measure_operators(1)
    assert times.shape == (len(shared.problem.units.graph),)
    assert times.sum() > 0
    assert shared.reference_ms > 0
    with pytest.raises(UserError, match="device indices"):
        shared.evaluate(assignment([5] * N_TINY))


def test_another_protocol_shares_the_process_and_does_not_end_it(shared: MeasuredBackend) -> None:
    shared.evaluate(assignment(CHESSBOARD))
    other = shared.with_protocol(TimingProtocol(warmup=0, repeats=8))
    assert other.evaluate(assignment(CHESSBOARD)).feasible
    before = pid_of(shared)
    other.close()
    assert shared.evaluate(assignment(CHESSBOARD)).feasible
    assert pid_of(shared) == before


def test_a_process_that_dies_between_measurements_is_replaced(shared: MeasuredBackend) -> None:
    shared.evaluate(assignment(CHESSBOARD))
    os.kill(pid_of(shared), signal.SIGKILL)
    assert shared.evaluate(assignment(CHESSBOARD)).error == ""
    assert not shared.session.failures


@pytest.mark.slow  # test_copies.py measures one, too
def test_a_model_in_memory_travels_as_it_is() -> None:
    model = known_model("tiny").clone()
    model.set_friendly_name("../../of mine")
    backend = build(model)
    found = backend.evaluate(assignment(CHESSBOARD))
    backend.close()
    assert found.error == ""
    assert found.n_submodels == found.n_submodels_expected


def test_built_in_model_ignores_the_files_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    with ModelSpec("tiny").as_file() as source:
        assert source["model"] == "tiny"
    with ModelSpec("models/tiny").as_file() as source:
        assert source["model"] == str(tmp_path / "models" / "tiny")


def test_file_changed_since_the_environment_was_made_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    ov.save_model(known_model("tiny"), path, compress_to_fp16=False)
    backend = build(path)
    ov.save_model(known_model("cnn"), path, compress_to_fp16=False)
    with pytest.raises(UserError, match="its file has changed"):
        backend.evaluate(assignment(CHESSBOARD))


def test_without_isolation_all_but_finalists_run_here() -> None:
    env = make()
    backend = env.backend.inner
    assert isinstance(backend, MeasuredBackend)
    assert isinstance(backend.engine, Worker)
    assert backend.finals_engine is not None


@pytest.mark.parametrize("value", [0, -1.0, "soon", float("nan")])
def test_a_deadline_is_a_positive_number(value: Any) -> None:
    with pytest.raises(UserError, match="timeout_s must be"):
        make(timeout_s=value)


def answer_of_fork(backend: Any) -> str:
    """What a fork of this process gets: an error, or the number of the process that measured."""

    def measure() -> int:
        with closing(backend):
            assert backend.evaluate(assignment(CHESSBOARD)).error == ""
            return pid_of(backend)

    return start_fork(measure)()


def test_a_fork_measures_through_a_process_of_its_own(shared: MeasuredBackend) -> None:
    shared.evaluate(assignment(CHESSBOARD))
    before = pid_of(shared)
    assert int(answer_of_fork(shared)) != before
    assert shared.evaluate(assignment(CHESSBOARD)).error == ""
    assert pid_of(shared) == before


def test_a_fork_of_what_measures_in_its_own_process_is_told_so() -> None:
    said = answer_of_fork(make().backend)
    assert "was forked from" in said
    assert "'spawn'" in said


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_thousand_measurements_leave_the_process_as_it_was() -> None:
    backend, rng = build(), np.random.default_rng(0)
    samples: dict[str, list[Resources]] = {"here": [], "there": []}
    for step in range(1, 2001):
        assert backend.evaluate(rng.integers(0, 2, N_TINY)).error == ""
        if step % 25 == 0:
            samples["here"].append(Resources.from_process(os.getpid()))
            samples["there"].append(Resources.from_process(pid_of(backend)))
    for held in samples.values():
        before, after = Resources.usual(held[10:20]), Resources.usual(held[-10:])
        assert after.growth_since(before) < 0.01
        assert (after.descriptors, after.threads) == (before.descriptors, before.threads)
    for _ in range(5):
        backend.restart()
        assert backend.evaluate(backend.problem.single(1)).error == ""
    assert Resources.from_process(os.getpid()).descriptors == samples["here"][-1].descriptors
    backend.close()
