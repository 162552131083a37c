"""Steps of a plan: what is said of them, and what an interrupt keeps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from placement_gym.backends.measured import kept_profiles
from placement_gym.backends.measured.isolated import IsolatedBackend
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


def test_a_plan_that_is_stopped_after_its_race_is_saved_and_says_so(
    tiny_profile: CostTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("placement_gym.deployment.selection.confirm", interrupt)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt, match=r"plan-tiny\.json is the plan of one race"):
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
