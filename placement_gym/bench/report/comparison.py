"""The report of a comparison: its table in the terminal and in Markdown, files and pictures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Group

from placement_gym.backends import WITHIN_NOISE, YES
from placement_gym.base import (
    Column,
    FittedTable,
    FittedText,
    format_ratio,
    make_printable,
    replace_files,
    safe_name,
    write_json,
    write_text,
)
from placement_gym.bench.report.document import (
    escape_paragraph,
    format_bold,
    format_heading,
    format_table,
)
from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.report.plots import draw_finalist, draw_runs
from placement_gym.bench.report.wording import (
    GAP,
    INFEASIBLE,
    exceeds_memory,
    explain_failure,
    format_gap,
    list_remarks,
    remark_on,
    summarize_effort,
)
from placement_gym.bench.run import BenchEnv, Json
from placement_gym.problem import parse_assignment
from placement_gym.view import figures

Document = dict[str, Any]
PLAIN_LABEL = re.compile(r"\w+([ -]\w+)*")
"""A label that is a file's name if spaces become ``--``."""
TITLE_LETTERS = 92
"""Longest note that pictures show."""
COLUMNS = (
    Column("agent", text=True),
    Column("seed", spare=2),
    Column("ms", meaning="best placement"),
    Column("p90", spare=6, meaning="90th percentile"),
    Column("gap", meaning=GAP),
    Column("x ref", spare=5, meaning="over the reference"),
    Column("x best single", meaning="speed-up"),
    Column("faster"),
    Column("subm.", spare=3, meaning="submodels (expected)"),
    Column("evals", spare=1),
    Column("infeas.", spare=4, meaning=INFEASIBLE),
    Column("wall s", spare=4, meaning="of the search"),
)
"""The legend of the columns shown fits a line of 80."""
SHOWN = ("agent", "seed", "ms", "gap", "x best single", "faster", "evals")
"""Columns that a terminal shows without ``-v``."""
MAX_FAILURES = 5
"""Failed runs that a terminal names without ``-v``. Hand-tuned."""


def format_row(row: Json, known: KnownLatencies) -> dict[str, str]:
    empty_cells = dict.fromkeys(
        ("ms", "p90", "gap", "x ref", "x best single", "faster", "subm."), "-"
    )
    line = {"agent": row["label"], "seed": str(row["seed"]), **empty_cells}
    if row["latency_ms"] is None:
        line["faster"] = "does not fit" if exceeds_memory(row) else "failed"
    else:
        expected, n_submodels = row["n_submodels_expected"], row["n_submodels"]
        line |= {
            "ms": f"{row['latency_ms']:.2f}",
            "p90": "-" if row["latency_p90_ms"] is None else f"{row['latency_p90_ms']:.2f}",
            "gap": format_gap(row["latency_ms"], known),
            "x ref": f"{row['speedup']:.2f}",
            "subm.": str(n_submodels) if n_submodels == expected else f"{n_submodels} ({expected})",
        }
        if known.one_device_holds_the_model:
            line["x best single"] = format_ratio(row["speedup_vs_best_single"], row["noise"])
            undecided = row["warning"] and row["beats_best_single"] == WITHIN_NOISE
            line["faster"] = "doubtful" if undecided else row["beats_best_single"]
    return line | summarize_effort([row])


def heading(document: Document) -> str:
    return (
        f"{document['model']} on {', '.join(document['devices'])} ({document['env']}), "
        f"{document['n_units']} units, reference {document['reference']}"
    )


def conclusion(document: Document) -> str:
    interrupted = "Interrupted; rerun the command to continue. " if document["interrupted"] else ""
    return interrupted + str(document["verdict"])


def list_lines(document: Document) -> Iterator[tuple[dict[str, str], str]]:
    """List the lines of the table, as cells by column with a style for terminals."""
    known = KnownLatencies(
        best_single_ms=document["best_single_ms"],
        optimum_ms=document["optimum_ms"],
        bound_ms=document["bound_ms"],
        best_known_ms=document["best_known_ms"],
        one_device_holds_the_model=document["best_single_ms"] is not None,
    )
    for row in document["rows"]:
        won = row["beats_best_single"] == YES and known.one_device_holds_the_model
        yield format_row(row, known), "bold" if won else ""
    for name, value in known.named.items():
        yield {"agent": name, "ms": f"{value:.2f}"}, "dim"


def describe_run(row: Json, one_device_holds_the_model: bool) -> str:
    """Describe the result of a run in one line, printed as it ends."""
    seed = f"seed {row['seed']}"
    if row["latency_ms"] is None:
        return make_printable(explain_failure(row, seed))
    gain = "no single device may run the model"
    if one_device_holds_the_model:
        ratio = format_ratio(row["speedup_vs_best_single"], row["noise"])
        gain = f"{ratio} x the best single device"
    return (
        f"{make_printable(row['label'])}, {seed}: {row['latency_ms']:.2f} ms, {gain}, "
        f"{row['evaluations']} evaluation{'s' * (row['evaluations'] != 1)} in {row['wall_s']:.2f} s"
        f"{remark_on(row)}"
    )


def comparison_table(document: Document, verbose: bool = False) -> Group:
    """Make the table of a comparison, with notes, failures and the verdict.

    Args:
        document: The result of ``compare``.
        verbose: Show all columns that fit, and all failures.
    """
    columns = [column for column in COLUMNS if verbose or column.name in SHOWN]
    table, rows = FittedTable(columns, heading(document)), document["rows"]
    for line, style in list_lines(document):
        table.add_cells(line, style=style)
    notes = [*document["notes"], *filter(None, [document["replaced"]])]
    if document["resumed"]:
        notes.append(f"{document['resumed']} runs were done before and are taken as they are.")
    # A device that cannot hold the model is no failure.
    failures = {
        explain_failure(row): "" if exceeds_memory(row) else "red" for row in rows if row["error"]
    }
    named = [*failures.items()][: None if verbose else MAX_FAILURES]
    if more := len(failures) - len(named):
        named.append((f"further failures: {more}; -v names all", "red"))
    return Group(
        *(FittedText(note, style="yellow") for note in notes),
        table,
        *(FittedText(failure, style) for failure, style in named),
        *(FittedText(line, style="yellow") for line in list_remarks(rows)),
        FittedText(conclusion(document)),
    )


def format_markdown(document: Document) -> str:
    rows = document["rows"]
    legend = "; ".join(f"{one.name}: {one.meaning}" for one in COLUMNS if one.meaning)
    failures = [explain_failure(row) for row in rows if row["error"]]
    parts = [
        format_heading(heading(document), 1),
        *map(format_bold, document["notes"]),
        format_table([line for line, _ in list_lines(document)]),
        *map(escape_paragraph, [legend, *failures, *list_remarks(rows), conclusion(document)]),
    ]
    return "\n\n".join(parts) + "\n"


def write_comparison(
    bench_env: BenchEnv, document: Document, new: Collection[str], folder: Path
) -> None:
    """Write pictures, ``comparison.json`` and ``table.md``; draw placements of ``new`` keys again.

    Pictures that cannot be drawn become notes.
    """
    short = (note for note in document["notes"] if len(note) <= TITLE_LETTERS)
    runs = draw_runs(document, "\n".join([heading(document), *short]), folder)
    undrawn = [note for note in (*runs, *draw_placements(bench_env, document, new, folder)) if note]
    document["notes"] += undrawn
    document["kept"] = f"Rows, table{'' if undrawn else ', pictures'} and placements"
    with replace_files(folder) as new_folder:
        write_json(new_folder / "comparison.json", document)
        write_text(new_folder / "table.md", format_markdown(document))


def save_placement(bench_env: BenchEnv, row: Json, folder: Path) -> None:
    if row["placement"] is None:
        return
    assignment = parse_assignment(row["placement"], bench_env.base.problem)
    bench_env.to_placement(assignment).save(name_file(row, folder), follow=False)


def draw_placements(
    bench_env: BenchEnv, document: Document, new: Collection[str], folder: Path
) -> Iterator[str]:
    """Draw the finalists of new runs, and those without a picture."""
    for row in document["rows"]:
        path = name_file(row, folder, ".png")
        if row["placement"] is not None and (row["key"] in new or not path.exists()):
            yield figures.draw_if_possible(partial(draw_finalist, bench_env, row), path)


def name_file(row: Json, folder: Path, suffix: str = ".json") -> Path:
    """The file of a run's placement; no two labels share one."""
    label, plain = row["label"], PLAIN_LABEL.fullmatch(row["label"])
    stem = label.replace(" ", "--") if plain else label
    name = safe_name(f"{row['model']}-{stem}-seed{row['seed']}".replace(".", "-"))
    if not plain:  # or "annealing 1.5" would share the file of "annealing 1-5"
        name += f"-{hashlib.sha256(label.encode(errors='backslashreplace')).hexdigest()[:8]}"
    return folder / f"{name}{suffix}"
