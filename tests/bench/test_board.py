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
    assert "heft leads with" in page


def test_an_agent_alone_leads_nobody(rows: list[Json], tmp_path: Path) -> None:
    alone = [row for row in rows if row["agent"] == "heft"]
    write_board([write_rows(tmp_path / "rows", alone)], tmp_path, FIXED, quiet=True)
    page = (tmp_path / "board.md").read_text()
    assert "heft is alone on this board: " in page
    assert "leads" not in page


def shorten_latency(row: Json) -> Json:
    return row | {"latency_ms": row["latency_ms"] * 0.9}


def bring_own_costs(row: Json) -> Json:
    """A row that is true on faster devices of its own, which it says are those of the set."""
    faster = row["env_kwargs"] | {"schedule": "serial"}
    return row | {"env_kwargs": faster, "latency_ms": row["latency_ms"] * 0.5}


def name_other_costs(row: Json) -> Json:
    return row | {"costs_fingerprint": "0" * 16}


def overflow(row: Json) -> Json:
    """Numbers that the page would show as ``inf`` and as 11529215046068469760%."""
    return row | {"wall_s": 1e308, "infeasible": 2**62}


@pytest.mark.parametrize("forge", [shorten_latency, bring_own_costs, name_other_costs, overflow])
def test_an_agent_with_a_row_that_does_not_hold_is_left_out(
    forge: Callable[[Json], Json], rows: list[Json], tmp_path: Path
) -> None:
    first = next(row for row in rows if row["agent"] == "heft")
    forged = [forge(row) if row is first else row for row in rows]
    entries = write_board([write_rows(tmp_path, forged)], tmp_path, FIXED, quiet=True)
    assert [line["agent"] for line in rank_entries(entries.results)] == ["random"]
    assert all(line.startswith(f"{tmp_path}: ") for line in entries.left_out)
    assert "heft" in entries.left_out[-1]


def list_stranger(name: str, rows: list[Json]) -> list[Json]:
    """Rows that a stranger's folder has to bend the line of ``heft``."""
    own = [row for row in rows if row["agent"] == "heft"]
    worse = [row | {"agent": "heft"} for row in rows if row["agent"] == "random"]
    failed = {"error": "failed", "latency_ms": None, "placement": None}
    return {
        "one wrong row": [shorten_latency(own[0])],
        "one failed row": [own[0] | failed],
        "one worse row that replays": worse[:1],
        "all rows, one of them wrong": [shorten_latency(own[0]), *own[1:]],
        "two rows of each run": [*own, *worse],
        "a name that looks alike": [row | {"agent": "h\u0435ft"} for row in own],
        "the keys of others": [row | {"agent": "a:b"} for row in own[:3]],
    }[name]


@pytest.mark.parametrize(
    ("attack", "answer"),
    [
        ("one wrong row", "heft has 1 of 8 runs"),
        ("one failed row", "heft has 1 of 8 runs"),
        ("one worse row that replays", "heft has 1 of 8 runs"),
        ("all rows, one of them wrong", "latency_ms was"),
        ("two rows of each run", "its run has 2 rows"),
        ("a name that looks alike", "is no name of an entry"),
        ("the keys of others", "a:b has 3 of 8 runs"),
    ],
)
def test_no_folder_changes_the_line_of_another(
    attack: str, answer: str, rows: list[Json], tmp_path: Path
) -> None:
    honest = write_rows(tmp_path / "honest", rows)
    stranger = write_rows(tmp_path / "a-stranger", list_stranger(attack, rows))
    alone = write_board([honest], tmp_path / "alone", FIXED, quiet=True)
    both = write_board([stranger, honest], tmp_path / "both", FIXED, quiet=True)
    shown = [rank_entries(entries.results) for entries in (alone, both)]
    assert shown[0] == shown[1]
    assert answer in both.left_out[0]
    assert all(line.startswith(f"{stranger}: ") for line in both.left_out)


def test_two_entries_of_one_name_are_refused_by_name(rows: list[Json], tmp_path: Path) -> None:
    folders = [write_rows(tmp_path / name, rows) for name in ("honest", "stranger")]
    with pytest.raises(UserError, match=r"two entries are called 'random', of .*honest and of"):
        write_board(folders, tmp_path, FIXED, quiet=True)


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
