"""Figures and tables of documents, from rows.

    python benchmarks/figures.py                                            # fills them
    python benchmarks/figures.py floors problems floors/floors.jsonl.xz     # prints this one

A figure stands between ``<!-- figure: NAME ARGUMENTS -->``, which may not begin a line of a
paragraph, and ``<!-- end -->``. Files of rows are relative to ``docs/results``.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial

import algorithms
import floors
import hsdag
import learning
import measured_tables
import numpy as np
import online
import published
import releases
import stock
import stream
import throughput_measured
import twin
import wins
from all import describe_rows
from common import RESULTS, ROOT, Row, load_rows, make_parser
from summaries import Tables, group_by, make_table

from placement_gym.bench.report import StudyResults
from placement_gym.bench.report.known_latencies import find_recorded
from placement_gym.bench.report.study import summarize_agents
from placement_gym.bench.study import Study

FIGURE = re.compile(r"(<!-- figure: (.+?) -->)(.*?)(<!-- end -->)", re.DOTALL)
DOCUMENTS = [ROOT / "README.md", ROOT / "docs" / "index.md", *RESULTS.rglob("*.md")]
PAPER_LINES = {
    "best single device": "single-device",
    "random placements": "random",
    "best prefix": "prefix",
    "`placeto`": "placeto",
    "`rnn`": "rnn",
    "`hsdag`": "hsdag",
    "`hsdag`, the paper's training": "hsdag paper",
    "hill climbing": "hill-climb",
    "proven optimum": "min-cut",
}
"""Line of the table -> label of its runs."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("figure", nargs="*", help="print this one alone: NAME ARGUMENTS")
    if asked := parser.parse_args().figure:
        print(compute(shlex.join(asked)))
        return
    for document in DOCUMENTS:
        text = document.read_text()
        if (filled := fill(text)) != text:
            document.write_text(filled)
            print(document.relative_to(ROOT))


def fill(text: str) -> str:
    return FIGURE.sub(lambda found: f"{found[1]}{compute(found[2])}{found[4]}", text)


def compute(call: str) -> str:
    name, *arguments = shlex.split(call)
    return FIGURES[name](*arguments)


def show(lines: Sequence[Row]) -> str:
    return frame(make_table([[*line.values()] for line in lines], *lines[0]))


def frame(text: str) -> str:
    """Put the empty lines that Markdown needs around a table."""
    return f"\n\n{text}\n\n"


def show_table(tables: Tables, table: str, *files: str) -> str:
    lines = tables[table](load_rows(*files))
    return show(lines) if lines else frame(f"No {table}.")


def show_claims(_: str) -> str:
    with (RESULTS / "published" / "published.csv").open(newline="") as file:
        return show(published.list_claims([*csv.DictReader(file)]))


def compare_models() -> str:
    """Median latencies of the study ``paper``, ms."""
    study = Study.load("paper")
    runs = group_by(load_rows("paper/results.jsonl.xz"), "label", "model")
    lines: list[Row] = [
        {"ms": name}
        | {model: f"{np.median([row['latency_ms'] for row in runs[label, model]]):.4g}"
           for model in study.models}
        for name, label in PAPER_LINES.items()
    ]  # fmt: skip
    published = {model: study.published["HSDAG"][model] for model in study.models}
    return show([*lines, {"ms": "published by HSDAG's authors"} | published])


def summarize_study(name: str, file: str) -> StudyResults:
    """The results of a study's runs in a file of rows."""
    study = Study.load(name)
    keys = {task.key for task in study.tasks()}
    rows = [row for row in load_rows(file) if row["key"] in keys]
    return StudyResults(rows, find_recorded(rows), study.role_of)


def compare_simulators() -> str:
    """Mean scores of the study ``mismatch``, where placements were found and elsewhere."""
    results = summarize_study("mismatch", "mismatch-rows.jsonl.xz")
    test, validation = (results.only(results.counted(role)) for role in ("test", "validation"))
    means = [(of, field) for of in (test, validation) for field in ("latency_ms", "scored_ms")]
    lines = [
        [f"`{agent}`", *(f"{of.means[agent, field]:.3f}" for of, field in means)]
        for agent in test.ranking
    ]
    columns = ("test, mean", "elsewhere", "validation, mean", "elsewhere")
    return frame(make_table(lines, "agent", *columns))


def summarize_fixed() -> str:
    results = summarize_study("placement-bench-1", "placement-bench-1/results.jsonl.xz")
    return frame(summarize_agents(results))


def compare_on_each() -> str:
    """State how far ``search`` is behind others on single problems, at equal budgets."""
    rows = load_rows("floors/floors.jsonl.xz")
    evaluations, seconds = (floors.find_lead(unit, rows) for unit in floors.UNITS)
    return (
        f"On a single problem another agent is at most {evaluations:.2f} % ahead of it at the same "
        f"number of evaluations, and {seconds:.1f} % at the same seconds."
    )


def count_proven() -> str:
    """Count the optima of the largest load that programs prove."""
    rows = load_rows("algorithms-rows.jsonl")
    proven = [row["proven"] for row in rows if row["arm"].startswith("max-load")]
    return f"{sum(proven)} optima of {len(proven)}"


def count_hours(file: str) -> str:
    rows = load_rows(file)
    return f"{len(rows)} runs took {sum(row['wall_s'] for row in rows) / 3600:.1f} hours"


def count_planned() -> str:
    rows = load_rows("foreign-rows.jsonl")
    refused = sum(bool(row["error"]) for row in rows)
    planned = len(rows) - refused
    return (
        f"Of {len(rows)} networks {planned} were planned and exported, {refused or 'none'} refused."
    )


FIGURES: dict[str, Callable[..., str]] = {
    "rows": describe_rows,
    "paper": compare_models,
    "mismatch": compare_simulators,
    "fixed": summarize_fixed,
    "bounds": lambda: algorithms.summarize_bounds(load_rows("throughput-rows.jsonl.gz")),
    "proven": count_proven,
    "stock": partial(show_table, stock.TABLES),
    "trainings": lambda part: frame(f"```python\n{stock.write_programs(part)}\n```"),
    "stream": partial(show_table, stream.TABLES),
    "hsdag": partial(show_table, hsdag.TABLES),
    "algorithms": partial(show_table, algorithms.TABLES),
    "leads": compare_on_each,
    "floors": partial(show_table, floors.TABLES),
    "learning": partial(show_table, learning.TABLES),
    "numbers": show_claims,
    "published": partial(show_table, published.TABLES),
    "hours": count_hours,
    "planned": count_planned,
    "measured": partial(show_table, throughput_measured.TABLES),
    "twin": partial(show_table, twin.TABLES),
    "engine": partial(show_table, measured_tables.TABLES),
    "online": partial(show_table, online.TABLES),
    "releases": lambda: frame(releases.write_table(load_rows("releases.jsonl.xz"))),
    "all-wins": lambda: frame(make_table(map(wins.answer, wins.QUESTIONS), *wins.HEADER)),
}

if __name__ == "__main__":
    main()
