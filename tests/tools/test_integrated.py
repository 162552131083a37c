"""Plans for integrated devices: what they report is no limit, and around it more is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cliff import GIB, N_UNITS, CliffEngine, heavy_problem, laptop

from placement_gym import machine
from placement_gym.backends.measured.profile import holds_model
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.cli.main import main
from placement_gym.devices import DeviceSpec
from placement_gym.machine import find_machine_devices
from placement_gym.problem import Problem
from placement_gym.tools.candidates import Candidate, propose_candidates
from placement_gym.tools.memory import check_room, describe_fit
from placement_gym.tools.near_full import add_variants


@pytest.fixture(autouse=True)
def memory_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "count_host_bytes", lambda: 32 * GIB)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def integrated(*devices: str, model_bytes: int = 10 * GIB) -> Problem:
    return heavy_problem(find_machine_devices(laptop(*devices)), model_bytes)


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
        "placement_gym.tools.plan.build_backend_to_split", lambda *_, **__: (engine, [])
    )
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["plan", "--model", "tiny", "--out", str(tmp_path)]) == 0
    return capsys.readouterr().out, engine


def test_a_model_beyond_what_an_integrated_gpu_reports_runs_on_it_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    problem = integrated()
    out, engine = plan_words(problem, 1.0, monkeypatch, capsys, tmp_path)
    print(out)
    said = " ".join(out.split())
    assert said.startswith("Saved: GPU alone")
    assert "cannot hold" not in said
    assert (
        "the model needs 10737.4 MB, and GPU reports 8589.9 MB: 2147.5 MB more. As GPU uses the "
        "host's memory this is no limit, and GPU alone is measured too"
    ) in said
    assert "GPU alone puts 10737.4 MB on GPU, which exceeds what it reports by 2147.5 MB" in said
    assert [1] * N_UNITS in engine.measured
    for label in ("milp, within what is reported", "less on GPU", "more on GPU"):
        assert label in said


def test_beyond_a_cliff_the_split_within_what_is_reported_wins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out, _ = plan_words(integrated(), 6.0, monkeypatch, capsys, tmp_path)
    print(out)
    said = " ".join(out.split())
    assert said.startswith("Saved: a split")
    assert "puts" not in said
