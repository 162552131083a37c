# White-box tests of backends.measured, deployment
"""Steps of a plan: what is said of them, and what an interrupt keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cliff import CliffEngine, heavy_problem
from disks import full_disk
from scripted_engine import ScriptedEngine

from placement_gym.backends import Measurement
from placement_gym.backends.measured import MeasuredBackend, TimingProtocol, kept_profiles
from placement_gym.base import IntArray
from placement_gym.cli import main
from placement_gym.deployment import plan
from placement_gym.deployment import planning as plans
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import Placement
from placement_gym.problem.costs import CostTable

DEVICES = (DeviceSpec("CPU"), DeviceSpec("GPU"))


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliffEngine:
    """Measures for the plans of a test, which keeps its own profiles."""
    engine = CliffEngine(heavy_problem(DEVICES))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(plans, "build_divisible_backend", lambda *_, **__: (engine, []))
    return engine


@pytest.mark.parametrize("interrupted_in", ["measure_profile", "remeasure"])
def test_an_interrupted_plan_says_what_is_kept_and_how_to_go_on(
    interrupted_in: str, engine: CliffEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[CliffEngine] = []
    monkeypatch.setattr(CliffEngine, "close", lambda engine: closed.append(engine))
    owner = kept_profiles if interrupted_in == "measure_profile" else CliffEngine
    monkeypatch.setattr(owner, interrupted_in, interrupt)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt) as interrupted:
        plan("tiny", DEVICES, out=out, quiet=True, export=out / "deployed")
    assert not out.exists()
    said = str(interrupted.value)
    if interrupted_in == "remeasure":
        assert "the profile is kept in" in said
        assert "without --refresh uses it" in said
    else:
        assert "nothing is kept: the same command starts again" in said
    assert len(closed) == 2  # what profiled, and what planned


def test_a_plan_that_is_stopped_after_its_race_is_saved_and_says_so(
    engine: CliffEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placement_gym.deployment.selection.confirm", interrupt)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt, match=r"plan-heavy\.json is the plan of one race"):
        plan("tiny", DEVICES, out=out, export=out / "deployed", quiet=True)
    report = json.loads((out / "plan-heavy-report.json").read_text())
    assert any(row["measured_ms"] for row in report["rows"])
    assert any("was not measured again" in note for note in report["notes"])
    assert Placement.load(out / "plan-heavy.json").model == "heavy"
    assert not (out / "deployed").exists()


@pytest.mark.usefixtures("engine")
def test_a_plan_that_cannot_be_written_is_printed_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    earlier = {out / f"plan-heavy{end}.json": "of last week" for end in ("", "-costs", "-report")}
    for path, content in earlier.items():
        path.write_text(content)
    words = ["plan", "-m", "tiny", "--out", str(out), "-q"]
    with full_disk():
        assert main(words) == 2
    printed, said = capsys.readouterr()
    assert "No split beats" in " ".join(printed.split()) or "beats" in printed
    assert "plan-heavy" not in printed
    last = said.splitlines()[-1]
    assert last.startswith("placement-gym: these results are not saved: cannot write")
    assert "plan-heavy" in last
    assert {path: path.read_text() for path in out.iterdir()} == earlier
    with full_disk():
        assert main([*words, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["file"] is None


def test_a_plan_that_is_stopped_in_its_race_is_that_of_the_rounds_before(
    tiny_profile: CostTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remeasure = MeasuredBackend.remeasure

    def stop(backend: MeasuredBackend, assignments: Sequence[IntArray]) -> list[Measurement]:
        note = backend.on_rounds

        def stop_after(done: float, measured: Sequence[Measurement]) -> None:
            assert note is not None
            note(done, measured)
            if measured:
                raise KeyboardInterrupt

        backend.on_rounds = stop_after
        return remeasure(backend, assignments)

    monkeypatch.setattr(MeasuredBackend, "remeasure", stop)
    with pytest.raises(KeyboardInterrupt, match=r"plan-tiny\.json is the plan of 1 of at most \d"):
        plan("tiny", "cpu-testbed", granularity="colocated", out=tmp_path)
    report = json.loads((tmp_path / "plan-tiny-report.json").read_text())
    assert any(row["measured_ms"] for row in report["rows"])
    assert Placement.load(tmp_path / "plan-tiny.json").model == "tiny"


def test_the_steps_of_a_plan_are_said_with_their_seconds(
    engine: CliffEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan("tiny", DEVICES, out=tmp_path)
    (said,) = (line for line in capsys.readouterr().err.splitlines() if " steps: " in line)
    assert re.search(r"4 steps: .*rounds of measurements of all candidates \(about \d+ s\)", said)
    assert re.search(r"the best split again \(about \d+ s\)", said)


def test_a_round_is_estimated_by_its_samples_and_without_the_search_for_streams() -> None:
    engine = ScriptedEngine([Measurement(5.0, 5.0, compile_s=0.5, measure_s=8.0)])
    engine.protocol = TimingProtocol(repeats=4, final_repeats=1)
    assert plans.time_measurement(engine) == (8.5, 1.5)
