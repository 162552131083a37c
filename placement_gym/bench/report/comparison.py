"""A comparison's report: its table in the terminal and as Markdown, its files and pictures."""

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
    UserError,
    format_ratio,
    is_file,
    make_printable,
    replace_files,
    safe_name,
    write_json,
    write_text,
)
from placement_gym.base.schemas import ComparisonFields, check, load_json
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
from placement_gym.problem import Placement, parse_assignment
from placement_gym.view import figures

Document = dict[str, Any]
FILE = "comparison.json"
PLAIN_LABEL = re.compile(r"\w+([ -]\w+)*")
"""A label that a file's name can hold unchanged but for spaces, each of which becomes ``--``."""
TITLE_LETTERS = 92
"""Length of a note up to which it is printed on pictures; longer ones are next to the table."""
COLUMNS = (
    Column("agent", text=True),
    Column("seed", spare=3),
    Column("ms", meaning="median of the finalist, measured again after the search"),
    Column("p90", spare=7, meaning="90th percentile of the same"),
    Column("gap", meaning=GAP),
    Column("x ref", spare=6, meaning="speed-up over the reference device"),
    Column("x best single", meaning="speed-up over the best single device"),
    Column(
        "faster",
        meaning="whether it beats the best single device by more than the noise, doubtful if its "
        "measurement decides nothing",
    ),
    Column("subm.", spare=2, meaning="submodels that the engine made (expected, if different)"),
    Column("evals", spare=1, meaning="placements evaluated in the search"),
    Column("infeas.", spare=5, meaning=INFEASIBLE),
    Column("wall s", spare=4, meaning="seconds of the search"),
)
LEGEND = "; ".join(f"{one.name}: {one.meaning}" for one in COLUMNS if one.meaning)


def format_row(row: Json, known: KnownLatencies) -> dict[str, str]:
    """A result row as cells by column."""
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
            line["faster"] = format_verdict(row)
    return line | summarize_effort([row])


def format_verdict(row: Json) -> str:
    """Format whether a row beats the best single device, which is never faster than itself."""
    undecided = row["warning"] and row["beats_best_single"] == WITHIN_NOISE
    return "doubtful" if undecided else str(row["beats_best_single"])


def heading(document: Document) -> str:
    """Model, devices, environment and reference in one line."""
    return (
        f"{document['model']} on {', '.join(document['devices'])} ({document['env']}), "
        f"{document['n_units']} units, reference {document['reference']}"
    )


def conclusion(document: Document) -> str:
    """One sentence that answers the user's question."""
    interrupted = "Interrupted; rerun the command to continue. " if document["interrupted"] else ""
    return interrupted + str(document["verdict"])


def list_lines(document: Document) -> Iterator[tuple[dict[str, str], str]]:
    """The lines of the table as cells by column, each with its style in a terminal."""
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


def describe_run(row: Json, one_device_holds_the_model: bool = True) -> str:
    """The result of a run in one line, printed as it ends."""
    seed = f"seed {row['seed']}"
    if row["latency_ms"] is None:
        return make_printable(explain_failure(row, seed))
    gain = "no single device holds the model"
    if one_device_holds_the_model:
        ratio = format_ratio(row["speedup_vs_best_single"], row["noise"])
        gain = f"{ratio} x the best single device"
    return (
        f"{make_printable(row['label'])}, {seed}: {row['latency_ms']:.2f} ms, {gain}, "
        f"{row['evaluations']} evaluation{'s' * (row['evaluations'] != 1)} in {row['wall_s']:.2f} s"
        f"{remark_on(row)}"
    )


def comparison_table(document: Document) -> Group:
    """The table that the command prints, with notes, failures and the verdict."""
    table, rows = FittedTable(COLUMNS, heading(document)), document["rows"]
    for line, style in list_lines(document):
        table.add_cells(line, style=style)
    notes = [*document["notes"], *filter(None, [document["replaced"]])]
    if document["resumed"]:
        notes.append(f"{document['resumed']} runs were done before and are taken as they are.")
    # Devices that are too small are no faults.
    failures = [
        FittedText(explain_failure(row), "" if exceeds_memory(row) else "red")
        for row in rows
        if row["error"]
    ]
    return Group(
        *(FittedText(note, style="yellow") for note in notes),
        table,
        *failures,
        *(FittedText(line, style="yellow") for line in list_remarks(rows)),
        FittedText(conclusion(document)),
    )


def format_markdown(document: Document) -> str:
    """The same table as Markdown."""
    rows = document["rows"]
    failures = [explain_failure(row) for row in rows if row["error"]]
    parts = [
        format_heading(heading(document), 1),
        *map(format_bold, document["notes"]),
        format_table([line for line, _ in list_lines(document)]),
        *map(escape_paragraph, [LEGEND, *failures, *list_remarks(rows), conclusion(document)]),
    ]
    return "\n\n".join(parts) + "\n"


def describe_replaced(document: Document, folder: Path) -> list[str]:
    """Describe the comparison that is overwritten in the folder, if it was of other runs."""
    if not is_file(folder / FILE):
        return []
    try:
        replaced = check(ComparisonFields, load_json(folder / FILE))
    except UserError as error:
        return [f"{FILE} was damaged and is replaced ({error}); its rows stay in results.jsonl."]
    keys = {row["key"] for row in document["rows"]}
    if {row.key for row in replaced.rows} <= keys:
        return []
    return [
        f"The table, placements and pictures replace those of {replaced.model} on "
        f"{', '.join(replaced.devices)} ({replaced.env}), whose rows stay in results.jsonl."
    ]


def write_comparison(
    bench_env: BenchEnv, document: Document, new: Collection[str], folder: Path
) -> None:
    """Write pictures, ``comparison.json`` and ``table.md``; what cannot be drawn becomes a note.

    Args:
        bench_env: Where the runs were.
        document: The comparison, which gets notes and what was written.
        new: Keys of runs whose placements were not drawn before.
        folder: Where.
    """
    short = (note for note in document["notes"] if len(note) <= TITLE_LETTERS)
    runs = draw_runs(document, "\n".join([heading(document), *short]), folder)
    undrawn = [note for note in (*runs, *draw_placements(bench_env, document, new, folder)) if note]
    document["notes"] += undrawn
    document["kept"] = f"Rows, table{'' if undrawn else ', pictures'} and placements"
    with replace_files(folder) as new_folder:
        write_json(new_folder / FILE, document)
        write_text(new_folder / "table.md", format_markdown(document))


def save_placement(bench_env: BenchEnv, row: Json, folder: Path) -> None:
    """Write the finalist of a row as a placement file, if there is one."""
    if row["placement"] is None:
        return
    base = bench_env.base
    assignment = parse_assignment(row["placement"], base.problem)
    placement = Placement.from_assignment(base.problem, assignment, base.graph)
    placement.save(name_file(row, folder), follow=False)


def draw_placements(
    bench_env: BenchEnv, document: Document, new: Collection[str], folder: Path
) -> Iterator[str]:
    """Draw the finalists of new runs, and of others whose picture is missing."""
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
