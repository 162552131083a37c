"""A leader board counts what a replay on its own set of problems confirms, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from studies import read_rows, study, write_rows

from placement_gym.base.errors import UserError
from placement_gym.bench.board.entries import SET
from placement_gym.bench.board.page import describe_board, rank_entries, write_board
from placement_gym.bench.report.document import render_markdown
from placement_gym.bench.run.rows import Json
from placement_gym.bench.study.runner import run_study
from placement_gym.cli.main import main

ROOT = Path(__file__).parent.parent.parent
FIXED = study(
    about="A set",
    models=["tiny", "synthetic-layered-20"],
    devices=["cpu+dgpu", ["CPU", {"name": "GPU", "weight_share": 0.5}]],
    env_kwargs={"schedule": "list"},
    agents=["random", "heft"],
    seeds=2,
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    out = tmp_path_factory.mktemp("set")
    run_study(FIXED, out, "serial", quiet=True)
    return read_rows(out)


def test_agents_are_ranked_by_class_with_their_effort(rows: list[Json], tmp_path: Path) -> None:
    entries = write_board([write_rows(tmp_path / "rows", rows)], tmp_path, FIXED, quiet=True)
    assert not entries.left_out
    lines = {line["agent"]: line for line in rank_entries(entries.results)}
    assert set(lines) == {"random", "heft"}
    assert list(lines["heft"])[1:5] == [
        "score",
        "built-in models",
        "generated graphs",
        "limited memory",
    ]
    assert (lines["heft"]["evals"], lines["random"]["evals"]) == ("1", "12")
    page = (tmp_path / "board.html").read_text()
    assert (tmp_path / "board.md").read_text() == render_markdown(describe_board(entries))
    assert entries.identity in page


def shorten_latency(row: Json) -> Json:
    return row | {"latency_ms": row["latency_ms"] * 0.9}


def bring_own_costs(row: Json) -> Json:
    """A row that is true on faster devices of its own, which it says are those of the set."""
    faster = row["env_kwargs"] | {"schedule": "serial"}
    return row | {"env_kwargs": faster, "latency_ms": row["latency_ms"] * 0.5}


def name_other_costs(row: Json) -> Json:
    return row | {"costs_fingerprint": "0" * 16}


@pytest.mark.parametrize("forge", [shorten_latency, bring_own_costs, name_other_costs])
def test_an_agent_with_a_row_that_does_not_hold_is_left_out(
    forge: Callable[[Json], Json], rows: list[Json], tmp_path: Path
) -> None:
    first = next(row for row in rows if row["agent"] == "heft")
    forged = [forge(row) if row is first else row for row in rows]
    entries = write_board([write_rows(tmp_path, forged)], tmp_path, FIXED, quiet=True)
    assert [line["agent"] for line in rank_entries(entries.results)] == ["random"]
    wrong, missing = entries.left_out
    assert wrong.startswith("heft, ")
    assert missing == "heft has 7 of 8 runs"


def test_labels_say_who_ran_whatever_rows_say(rows: list[Json], tmp_path: Path) -> None:
    renamed = [row | {"label": "search"} for row in rows]
    entries = write_board([write_rows(tmp_path, renamed)], tmp_path, FIXED, quiet=True)
    assert {line["agent"] for line in rank_entries(entries.results)} == {"random", "heft"}


def test_rows_of_other_budgets_are_not_of_the_set(rows: list[Json], tmp_path: Path) -> None:
    others = [row | {"budget": 13} for row in rows]
    with pytest.raises(UserError, match="no rows with the set's problems, seeds and budget"):
        write_board([write_rows(tmp_path, others)], tmp_path, FIXED, quiet=True)


def test_the_study_of_a_set_runs_with_other_agents(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "run", SET, "--agents", "heft,annealing", "--out", "o", "--dry-run", "--json"]
    assert main(words) == 0
    about: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert "60 runs of 500 evaluations" in about["about"]
    assert "agents: heft, annealing\n" in about["about"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_committed_board_is_made_from_rows_that_hold(tmp_path: Path) -> None:
    committed = ROOT / "docs" / "results" / "board"
    entries = write_board([committed], tmp_path, quiet=True)
    assert not entries.left_out
    for name in ("board.md", "board.html"):
        assert (tmp_path / name).read_text() == (committed / name).read_text()
