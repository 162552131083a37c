"""Figures in the text of documents that come from rows.

    python benchmarks/figures.py                                            # fills them
    python benchmarks/figures.py floors problems floors/floors.jsonl.xz     # prints this one

A figure stands between ``<!-- figure: NAME ARGUMENTS -->`` and ``<!-- end -->``, a table on lines
of its own. No line of a paragraph may begin with the first of these: Markdown takes it as HTML.
Files of rows are relative to ``docs/results``.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable
from functools import partial
from math import floor

import algorithms
import floor_tables
import foreign
import go
import hsdag_tables
import learning_tables
import measured_tables
import numpy as np
import online_tables
import published_tables
import stock
import stream_tables
import throughput
import throughput_measured
import transfer
import twin
import wins
from common import load_rows, make_parser
from result_pages import RESULTS, ROOT, describe_origin, describe_rows
from summaries import Tables, group_by

from placement_gym.bench.report import StudyResults
from placement_gym.bench.report.known_latencies import find_recorded
from placement_gym.bench.report.overview import summarize_agents
from placement_gym.bench.report.problems import list_problems
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
CLOSED = 0.99
"""Of bound / best known."""


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
    """The text with every figure computed from its rows."""
    return FIGURE.sub(lambda found: f"{found[1]}{compute(found[2])}{found[4]}", text)


def compute(call: str) -> str:
    """The text of a figure, by its name and arguments."""
    name, *arguments = shlex.split(call)
    return FIGURES[name](*arguments)


def compare_models() -> str:
    """Median latencies of the study ``paper``, ms."""
    rows = load_rows(RESULTS / "paper" / "results.jsonl.xz")
    study = Study.load("paper")
    runs = group_by(rows, "label", "model")
    lines = [
        [name, *(f"{np.median([row['latency_ms'] for row in runs[label, model]]):.4g}"
                 for model in study.models)]
        for name, label in PAPER_LINES.items()
    ]  # fmt: skip
    published = study.published["HSDAG"]
    lines.append(["published by HSDAG's authors", *(str(published[one]) for one in study.models)])
    return frame(wins.make_table(lines, "ms", *study.models))


def compare_simulators() -> str:
    """Mean scores of the study ``mismatch``, where placements were found and elsewhere."""
    rows, study = [*load_rows(RESULTS / "mismatch-rows.jsonl.xz")], Study.load("mismatch")
    results = StudyResults(rows, find_recorded(rows), study.role_of)
    test, validation = (results.only(results.counted(role)) for role in ("test", "validation"))
    lines = [
        [f"`{agent}`", *(f"{of.means[agent, field]:.3f}" for of in (test, validation)
                         for field in ("latency_ms", "scored_ms"))]
        for agent in test.ranking
    ]  # fmt: skip
    columns = ("test, mean", "elsewhere", "validation, mean", "elsewhere")
    return frame(wins.make_table(lines, "agent", *columns))


def summarize_fixed(part: str) -> str:
    """Agents or problems of the study ``placement-bench-1``."""
    study = Study.load("placement-bench-1")
    keys = {task.key for task in study.tasks()}
    rows = load_rows(RESULTS / "placement-bench-1" / "results.jsonl.xz")
    rows_of_study = [row for row in rows if row["key"] in keys]
    results = StudyResults(rows_of_study, find_recorded(rows_of_study), study.role_of)
    tables = {"agents": summarize_agents, "problems": list_problems}
    return frame(tables[part](results))


def summarize_bounds() -> str:
    """How close the bounds of the largest load are."""
    rows = load_rows(RESULTS / "throughput-rows.jsonl.gz")
    ratios = np.array([row["bound_ms"] / row["best_ms"] for row in rows])
    mean, least = np.exp(np.log(ratios).mean()), floor(1e3 * ratios.min()) / 1e3
    return (
        f"Over {len(rows)} pairs of an input and a number of devices, the geometric mean of bound "
        f"/ best known is {mean:.3f}, the least {least:.3f} (rounded down); "
        f"{(ratios > CLOSED).sum()} are within one per cent."
    )


def compare_on_each() -> str:
    """How far ``search`` is behind others on single problems, at equal budgets."""
    rows = load_rows(RESULTS / "floors" / "floors.jsonl.xz")
    evaluations, seconds = (floor_tables.find_lead(unit, rows) for unit in floor_tables.UNITS)
    return (
        f"On a single problem another agent is at most {evaluations:.2f} % ahead of it at the same "
        f"number of evaluations, and {seconds:.1f} % at the same seconds."
    )


def count_proven() -> str:
    """How many optima of the largest load programs prove."""
    rows = load_rows(RESULTS / "algorithms-rows.jsonl")
    proven = [row["proven"] for row in rows if row["arm"].startswith("max-load")]
    return f"{sum(proven)} optima of {len(proven)}"


def count_planned() -> str:
    """How many foreign networks were planned."""
    rows = load_rows(RESULTS / "foreign-rows.jsonl")
    refused = sum(bool(row["error"]) for row in rows)
    planned = len(rows) - refused
    return (
        f"Of {len(rows)} networks {planned} were planned and exported, {refused or 'none'} refused."
    )


def show_table(tables: Tables, table: str, *files: str) -> str:
    """One of some tables, of files of rows."""
    lines = tables[table]([row for file in files for row in load_rows(RESULTS / file)])
    if not lines:
        return frame(f"No {table}.")
    cells = [[str(cell).replace("+-", "±") for cell in line.values()] for line in lines]
    return frame(wins.make_table(cells, *lines[0]))


def show_trainings(part: str) -> str:
    """Trainings of stock algorithms, as code."""
    return frame(f"```python\n{stock.write_programs(part)}\n```")


def show_numbers(table: str) -> str:
    """A table of published numbers and ours."""
    with (RESULTS / "published" / "published.csv").open(newline="") as file:
        lines = published_tables.LINES[table]([*csv.DictReader(file)])
    return frame(wins.make_table([[*line.values()] for line in lines], *lines[0]))


def frame(table: str) -> str:
    """A table with the empty lines that Markdown needs around it."""
    return f"\n\n{table}\n\n"


FIGURES: dict[str, Callable[..., str]] = {
    "rows": describe_rows,
    "origin": describe_origin,
    "paper": compare_models,
    "mismatch": compare_simulators,
    "fixed": summarize_fixed,
    "bounds": summarize_bounds,
    "proven": count_proven,
    "stock": partial(show_table, stock.TABLES),
    "trainings": show_trainings,
    "stream": partial(show_table, stream_tables.TABLES),
    "hsdag": partial(show_table, hsdag_tables.TABLES),
    "algorithms": partial(show_table, algorithms.TABLES),
    "throughput": partial(show_table, throughput.TABLES),
    "leads": compare_on_each,
    "floors": partial(show_table, floor_tables.TABLES),
    "learning": partial(show_table, learning_tables.TABLES),
    "numbers": show_numbers,
    "published": partial(show_table, published_tables.TABLES),
    "go": partial(show_table, go.TABLES),
    "foreign": partial(show_table, foreign.TABLES),
    "planned": count_planned,
    "transfer": partial(show_table, transfer.TABLES),
    "measured": partial(show_table, throughput_measured.TABLES),
    "twin": partial(show_table, twin.TABLES),
    "engine": partial(show_table, measured_tables.TABLES),
    "online": partial(show_table, online_tables.TABLES),
    "all-wins": lambda: frame(wins.make_full_table()),
}

if __name__ == "__main__":
    main()
