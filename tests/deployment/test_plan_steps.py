"""Steps of a plan: what is said of them, and what an interrupt keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from placement_gym.backends.measured import kept_profiles
from placement_gym.backends.measured.isolated import IsolatedBackend
from placement_gym.backends.protocol import Measurement
from placement_gym.base.arrays import IntArray
from placement_gym.deployment.plan import plan
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.placement import Placement


@pytest.mark.parametrize("interrupted_in", ["measure_profile", "remeasure"])
def test_an_interrupted_plan_says_what_is_kept_and_how_to_go_on(
    interrupted_in: str,
    tiny_profile: CostTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    closed: list[IsolatedBackend] = []
    monkeypatch.setattr(IsolatedBackend, "close", lambda backend: closed.append(backend))
    monkeypatch.setattr(IsolatedBackend, "remeasure", interrupt)
    monkeypatch.setattr(kept_profiles, "measure_profile", interrupt)
    if interrupted_in == "measure_profile":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt) as interrupted:
        plan(
            "tiny",
            "cpu-testbed",
            granularity="colocated",
            out=out,
            quiet=True,
            export=out / "deployed",
        )
    assert not out.exists()
    said = str(interrupted.value)
    if interrupted_in == "remeasure":
        assert "the profile is kept in" in said
        assert "without --refresh uses it" in said
    else:
        assert "nothing is kept: the same command starts again" in said
    assert len(closed) == (2 if interrupted_in == "measure_profile" else 1)


def stop_confirmation(monkeypatch: pytest.MonkeyPatch) -> str:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("placement_gym.deployment.selection.confirm", interrupt)
    return r"plan-tiny\.json is the plan of one race"


def stop_first_round(monkeypatch: pytest.MonkeyPatch) -> str:
    remeasure = IsolatedBackend.remeasure

    def stop(backend: IsolatedBackend, assignments: Sequence[IntArray]) -> list[Measurement]:
        note = backend.on_rounds

        def interrupt(done: int, measured: Sequence[Measurement]) -> None:
            assert note is not None
            note(done, measured)
            raise KeyboardInterrupt

        backend.on_rounds = interrupt
        return remeasure(backend, assignments)

    monkeypatch.setattr(IsolatedBackend, "remeasure", stop)
    return r"plan-tiny\.json is the plan of 1 of at most \d rounds"


@pytest.mark.parametrize("stop", [stop_confirmation, stop_first_round])
def test_a_plan_that_is_stopped_in_or_after_its_race_is_saved(
    stop: Callable[[pytest.MonkeyPatch], str],
    tiny_profile: CostTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, expected = tmp_path / "out", stop(monkeypatch)
    with pytest.raises(KeyboardInterrupt, match=expected):
        plan("tiny", "cpu-testbed", granularity="colocated", out=out, export=out / "deployed")
    report = json.loads((out / "plan-tiny-report.json").read_text())
    assert any(row["measured_ms"] for row in report["rows"])
    assert any("was not measured again" in note for note in report["notes"])
    assert Placement.load(out / "plan-tiny.json").model == "tiny"
    assert not (out / "deployed").exists()


def test_the_steps_of_a_plan_are_said_with_their_seconds(
    tiny_profile: CostTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan("tiny", "cpu-testbed", granularity="colocated", out=tmp_path)
    (said,) = (line for line in capsys.readouterr().err.splitlines() if " steps: " in line)
    assert re.search(r"4 steps: .*rounds of measurements of all candidates \(about \d+ s\)", said)
    assert re.search(r"the best split again \(about \d+ s\)", said)
