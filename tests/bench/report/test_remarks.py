"""Tables say which searches stopped before their budget, and whose answer was their start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from placement_gym.bench.compare import compare
from placement_gym.bench.report.wording import list_remarks, remark_on


def row(label: str, **fields: Any) -> dict[str, Any]:
    return {"label": label, "budget": 100, "evaluations": 100, **fields}


def test_agents_whose_answer_is_their_start_share_a_line() -> None:
    rows = [
        row("gdp", start="milp"),
        row("post", start="milp"),
        row("annealing", start="GPU alone"),
    ]
    assert list_remarks(rows) == [
        "gdp, post: the answer is their start, milp's placement",
        "annealing: the answer is its start, GPU alone",
    ]


def test_shares_of_runs_are_counted() -> None:
    rows = [row("gdp", start="heft"), row("gdp", start=""), row("gdp", start="heft")]
    rows += [row("beam", stopped=True, evaluations=n) for n in (60, 72)]
    assert list_remarks([*rows, row("beam")]) == [
        "beam (2 of 3 runs): stopped after 60 to 72 of 100 evaluations: its search ended by itself",
        "gdp (2 of 3 runs): the answer is its start, heft's placement",
    ]


def test_rows_of_earlier_versions_say_nothing() -> None:
    assert list_remarks([row("gdp"), row("post")]) == []
    assert remark_on(row("gdp")) == ""


def test_a_comparison_says_both(tmp_path: Path) -> None:
    document = compare(
        "tiny",
        [{"name": "post", "kwargs": {"begin_with": "heuristics"}}, "prefix", "heft"],
        env_id="DevicePlacementSim-v0",
        devices="cpu+dgpu",
        budget=20,
        out=tmp_path,
        quiet=True,
    )
    rows = {row["agent"]: row for row in document["rows"]}
    assert (rows["prefix"]["stopped"], rows["prefix"]["evaluations"]) == (True, 12)
    assert (rows["post"]["stopped"], rows["heft"]["stopped"]) == (False, False)
    assert rows["post"]["start"]
    assert rows["heft"]["start"] == rows["prefix"]["start"] == ""
    table = (tmp_path / "table.md").read_text()
    assert "prefix: stopped after 12 of 20 evaluations" in table
    assert "post heuristics: the answer is its start, " in table
