# White-box tests of backends, backends.measured
"""An engine that crashes, hangs or lies: the run goes on, and keeps no wrong value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import assignment
from faulty_worker import FAULTS, REFUSALS
from testbed import CHESSBOARD, N_TINY

from placement_gym.backends import EngineFailureError, Kind
from placement_gym.backends.failures import POLICIES
from placement_gym.backends.measured import MeasuredBackend, TimingProtocol, build_measured_backend
from placement_gym.backends.measured import backend as measured_backend
from placement_gym.backends.measured.engine import EngineProcess
from placement_gym.hardware import TESTBED
from placement_gym.models import ModelSpec

SUPPORT = Path(__file__).parents[2] / "support"
PROTOCOL = TimingProtocol(warmup=1, repeats=2, final_repeats=2, final_compiles=2)


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of coming faults; pauses are not waited for."""
    monkeypatch.setenv("FAULTS", str(tmp_path / "faults"))
    monkeypatch.setenv("PYTHONPATH", f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(measured_backend, "sleep", lambda seconds: None)
    (tmp_path / "faults").write_text("")
    return tmp_path / "faults"


def faulty(timeout_s: float = 60.0) -> MeasuredBackend:
    backend = build_measured_backend(
        ModelSpec("tiny"), TESTBED, protocol=PROTOCOL, timeout_s=timeout_s
    )
    assert isinstance(backend.engine, EngineProcess)
    backend.engine.module = "faulty_worker"
    return backend


def evaluate_with(
    backend: MeasuredBackend, path: Path, faults: Sequence[str], placed: Sequence[int]
) -> Any:
    path.write_text("\n".join(faults))
    return backend.evaluate(assignment(placed))


@pytest.mark.slow
def test_exceptions_bad_latencies_and_wrong_outputs_differ(faults: Path) -> None:
    backend = faulty()
    for fault in ("refused", "wrong", "nan-outputs", "nan", "negative", "memory", "garbage"):
        refused = fault in REFUSALS
        found = evaluate_with(backend, faults, [fault], CHESSBOARD)
        assert bool(found.error) == refused, fault
        assert np.isfinite(found.latency_ms), fault
        again = backend.evaluate(assignment(CHESSBOARD))
        assert again.error == "", fault
    backend.close()


@pytest.mark.slow
def test_two_crashes_make_a_placement_infeasible_for_good(faults: Path) -> None:
    backend = faulty()
    found = evaluate_with(backend, faults, ["segv", "kill"], CHESSBOARD)
    assert found.error.startswith("the engine's process: killed by SIG")
    assert found.latency_ms == pytest.approx(10 * found.reference_ms)
    assert backend.evaluate(assignment(CHESSBOARD)).error == found.error
    assert backend.evaluate(backend.problem.single(1)).error == ""
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["hang", "stop"])
def test_a_hanging_engine_is_ended_at_its_deadline(fault: str, faults: Path) -> None:
    backend = faulty(timeout_s=5.0)
    found = evaluate_with(backend, faults, [fault], CHESSBOARD)
    assert found.error == ""
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_run_survives_each_fault_and_keeps_no_wrong_value(fault: str, faults: Path) -> None:
    backend = faulty(timeout_s=5.0)
    rng = np.random.default_rng(0)
    refused = 0
    for step in range(12):
        placed = rng.integers(0, 2, N_TINY)
        found = evaluate_with(backend, faults, [fault] * (step % 3 == 0), placed)
        refused += bool(found.error)
        assert 0.0 < found.latency_ms < np.inf
        assert 0.0 < found.reference_ms < np.inf
    assert refused == (4 if fault in REFUSALS else 0)
    assert not backend.session.failures
    backend.close()


@pytest.mark.slow
def test_compile_without_memory_blames_no_placement(faults: Path) -> None:
    backend, placed = faulty(), [1, *CHESSBOARD[1:]]
    assert evaluate_with(backend, faults, ["no-room"], CHESSBOARD).error == ""
    attempts = 1 + len(POLICIES[Kind.TRANSIENT].pauses_s)
    with pytest.raises(EngineFailureError) as failed:
        evaluate_with(backend, faults, ["no-room"] * attempts, placed)
    assert failed.value.kind == Kind.TRANSIENT
    assert not backend.session.failures
    assert backend.evaluate(assignment(placed)).error == ""
    backend.close()
