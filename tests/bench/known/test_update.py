"""Best known values change only by placements that a replay confirms."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from studies import study, write_rows

from placement_gym.base import UserError
from placement_gym.bench import BestKnown, load_values
from placement_gym.bench.run import Json
from placement_gym.bench.study import run_study
from placement_gym.solvers import Solution

Update = Callable[[Sequence[Json]], list[Any]]
EVENT = {"schedule": "event"}
SLOW = study(models=["tiny"], agents=["single-device"], seeds=1, env_kwargs=EVENT)
FAST = study(models=["tiny"], agents=["annealing"], seeds=1, env_kwargs=EVENT, budget=200)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, Json]:
    """A row with a slow placement and one with a fast placement."""
    out = tmp_path_factory.mktemp("ran")
    (slow,), (fast,) = (run_study(one, out, "serial", quiet=True) for one in (SLOW, FAST))
    assert fast["latency_ms"] < slow["latency_ms"]
    return slow, fast


@pytest.fixture
def bound_alone(known_script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver of the bound has no placement."""
    monkeypatch.setattr(known_script, "lower_bound", lambda *_: Solution(None, 0.1, proven=False))


@pytest.fixture
def update(known_script: ModuleType, values: Path) -> Update:
    """Take the placements of rows, and return what became of each problem."""
    folder = values.parent / "results"
    return lambda rows: [*known_script.update_values(write_rows(folder, rows))]


@pytest.mark.usefixtures("bound_alone")
def test_only_a_faster_placement_replaces_another(
    ran: tuple[Json, Json], values: Path, update: Update
) -> None:
    slow, fast = ran
    (first,) = update([slow])
    (known,) = load_values(values)
    assert first.before is None
    assert first.after == known
    assert (known.latency_ms, known.agent) == (slow["latency_ms"], "single-device")
    (second,) = update([slow, fast])
    (better,) = load_values(values)
    assert second.before == known
    assert (better.latency_ms, better.agent) == (fast["latency_ms"], "annealing")
    assert (better.commit, better.date) == (fast["commit"], fast["time"][:10])
    (third,) = update([slow])
    assert third.after is third.before
    assert load_values(values) == [better]


@pytest.mark.usefixtures("bound_alone")
def test_a_latency_that_a_replay_does_not_confirm_is_not_taken(
    ran: tuple[Json, Json], values: Path, update: Update
) -> None:
    slow, fast = ran
    lie = slow | {"latency_ms": 0.5 * fast["latency_ms"]}
    (change,) = update([lie])
    assert change.after is None
    assert "single-device: was" in change.note
    assert load_values(values) == []
    (change,) = update([lie, fast])
    assert change.after is not None
    assert change.after.latency_ms == fast["latency_ms"]
    assert "single-device: was" in change.note


def test_an_infeasible_placement_is_not_taken(values: Path, tmp_path: Path, update: Update) -> None:
    limited = [["CPU", {"name": "GPU", "weight_share": 0.5}]]
    small = study(models=["resnet"], agents=["random-blocks"], devices=limited, seeds=1)
    (row,) = run_study(small, tmp_path / "ran", "serial", quiet=True)
    everything = row | {"placement": dict.fromkeys(row["placement"], "GPU"), "latency_ms": 1.0}
    (change,) = update([everything])
    assert "inf" in change.note
    assert load_values(values) == []


def test_a_model_that_only_this_machine_has_is_refused(
    ran: tuple[Json, Json], values: Path, update: Update
) -> None:
    problem = json.loads(ran[1]["problem"])
    problem[2] = path = "/home/me/net.xml"
    env_kwargs = ran[1]["env_kwargs"] | {"model": path}
    local = ran[1] | {"problem": json.dumps(problem), "env_kwargs": env_kwargs}
    (change,) = update([local])
    assert "begin it with a variable" in change.note
    assert load_values(values) == []


@pytest.mark.slow
def test_what_has_been_scored_elsewhere_is_a_candidate_there(
    tmp_path: Path, update: Update
) -> None:
    scored = study(models=["tiny"], agents=["heft"], seeds=1, score_on={"schedule": "placeto"})
    (row,) = run_study(scored, tmp_path / "ran", "serial", quiet=True)
    serial, event = sorted(update([row]), key=lambda change: len(change.problem[1]))
    assert event.problem[1] == {"schedule": "placeto"}
    assert event.after is not None
    assert event.after.latency_ms == row["scored_ms"]
    assert serial.after is not None
    assert serial.after.latency_ms <= row["latency_ms"]


def test_the_solver_of_a_bound_may_find_the_optimum(
    tmp_path: Path, update: Update, known_script: ModuleType
) -> None:
    small = study(models=["tiny"], agents=["single-device"], seeds=1)
    rows = run_study(small, tmp_path / "ran", "serial", quiet=True)
    (change,) = update(rows)
    assert change.after is not None
    assert change.after.agent == known_script.SOLVER
    assert change.after.proven
    assert change.after.latency_ms < rows[0]["latency_ms"]
    assert not change.after.trivial


@pytest.mark.usefixtures("bound_alone")
def test_bounds_only_rise(
    ran: tuple[Json, Json], values: Path, update: Update, known_script: ModuleType
) -> None:
    update([ran[1]])
    (known,) = load_values(values)
    known_script.replace_value(replace(known, bound_ms=0.0))
    (change,) = known_script.update_values()
    assert load_values(values) == [change.after] == [known]
    high = replace(known, bound_ms=known.latency_ms)
    known_script.replace_value(high)
    (change,) = known_script.update_values()
    assert change.after == high


def test_a_better_placement_keeps_the_bound(
    ran: tuple[Json, Json], values: Path, update: Update, known_script: ModuleType
) -> None:
    update([ran[0]])
    (known,) = load_values(values)
    known_script.replace_value(replace(known, bound_ms=known.bound_ms * 0.9))
    update([ran[1]])
    (better,) = load_values(values)
    assert better.bound_ms == pytest.approx(known.bound_ms * 0.9)


@pytest.mark.usefixtures("bound_alone")
def test_a_better_placement_refutes_a_bound(
    ran: tuple[Json, Json], values: Path, update: Update, known_script: ModuleType
) -> None:
    slow, fast = ran
    update([slow])
    (known,) = load_values(values)
    known_script.replace_value(replace(known, bound_ms=known.latency_ms))
    update([fast])
    (better,) = load_values(values)
    assert (better.latency_ms, better.bound_ms) == (fast["latency_ms"], 0.1)


def test_there_must_be_placements(ran: tuple[Json, Json], update: Update) -> None:
    with pytest.raises(UserError, match="no results"):
        update([ran[1] | {"costs_fingerprint": None}])


@pytest.mark.usefixtures("bound_alone")
def test_the_script_says_what_it_changed(
    ran: tuple[Json, Json],
    values: Path,
    update: Update,
    known_script: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update([ran[0]])
    results = write_rows(values.parent / "results", ran[1:])
    monkeypatch.setattr(sys, "argv", ["known.py", str(results)])
    known_script.main()
    printed = capsys.readouterr().out
    assert f"was {ran[0]['latency_ms']:.6g} ms" in printed
    assert f"is {ran[1]['latency_ms']:.6g} ms" in printed
    monkeypatch.setattr(sys, "argv", ["known.py"])
    known_script.main()
    assert capsys.readouterr().out.endswith(": unchanged\n")
    assert isinstance(load_values(values)[0], BestKnown)
