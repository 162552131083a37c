"""The files and the table of a comparison."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group

from placement_gym.base.errors import UserError
from placement_gym.base.files import safe_name, write_text
from placement_gym.base.fitted_table import Column, FittedTable, FittedText
from placement_gym.base.schemas.files import ComparisonFields
from placement_gym.base.schemas.reading import check, load_json
from placement_gym.base.texts import make_printable
from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.report.wording import (
    GAP,
    INFEASIBLE,
    format_gap,
    format_infeasible,
    format_ratio,
    list_remarks,
    remark_on,
)
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.bench.run.finalists import WITHIN_NOISE, YES
from placement_gym.bench.run.rows import Json
from placement_gym.problem.placement import Placement, parse_assignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Document = Mapping[str, Any]
FILE = "comparison.json"
SINGLE_DEVICE = "single-device"
PLAIN_LABEL = re.compile(r"\w+([ -]\w+)*")
"""A label that a file's name can hold as it is, but for spaces, each of which becomes ``--``."""

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
TITLE_LETTERS = 92
"""Of a note that stands on the pictures; longer ones are next to the table."""


def format_row(row: Json, known: KnownLatencies) -> dict[str, str]:
    """A result row as cells by column."""
    nothing = dict.fromkeys(("ms", "p90", "gap", "x ref", "x best single", "faster", "subm."), "-")
    line = {"agent": row["label"], "seed": str(row["seed"]), **nothing}
    if row["latency_ms"] is None:
        line["faster"] = "failed"
    else:
        expected, made = row["n_submodels_expected"], row["n_submodels"]
        line |= {
            "ms": f"{row['latency_ms']:.2f}",
            "p90": "-" if row["latency_p90_ms"] is None else f"{row['latency_p90_ms']:.2f}",
            "gap": format_gap(row["latency_ms"], known),
            "x ref": f"{row['speedup']:.2f}",
            "subm.": str(made) if made == expected else f"{made} ({expected})",
        }
        if known.one_device_holds_the_model:
            line["x best single"] = format_ratio(row["speedup_vs_best_single"], row["noise"])
            line["faster"] = format_verdict(row)
    return line | {
        "evals": str(row["evaluations"]),
        "infeas.": format_infeasible([row]),
        "wall s": f"{row['wall_s']:.2f}",
    }


def format_verdict(row: Json) -> str:
    """Format whether a row beats the best single device, which is never faster than itself."""
    undecided = row["doubt"] and row["beats_best_single"] == WITHIN_NOISE
    return "doubtful" if undecided else str(row["beats_best_single"])


def format_known(known: KnownLatencies) -> list[dict[str, str]]:
    """The known latencies as cells by column."""
    return [{"agent": name, "ms": f"{value:.2f}"} for name, value in known.named.items()]


def known_latencies_of(document: Document) -> KnownLatencies:
    """The known latencies of a document."""
    return KnownLatencies(
        best_single_ms=document["best_single_ms"],
        optimum_ms=document["optimum_ms"],
        bound_ms=document["bound_ms"],
        best_known_ms=document["best_known_ms"],
        one_device_holds_the_model=document["best_single_ms"] is not None,
    )


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


def list_failures(document: Document) -> list[str]:
    """A line for each run without a latency."""
    return [f"{row['label']}: {row['error']}" for row in document["rows"] if row["error"]]


def describe_run(row: Json, one_device_holds_the_model: bool = True) -> str:
    """The result of a run in one line, printed as it ends."""
    name = make_printable(f"{row['label']}, seed {row['seed']}")
    if row["latency_ms"] is None:
        return f"{name}: {make_printable(row['error']) or 'failed'}"
    gain = "no single device holds the model"
    if one_device_holds_the_model:
        ratio = format_ratio(row["speedup_vs_best_single"], row["noise"])
        gain = f"{ratio} x the best single device"
    return (
        f"{name}: {row['latency_ms']:.2f} ms, {gain}, "
        f"{row['evaluations']} evaluation{'s' * (row['evaluations'] != 1)} in {row['wall_s']:.2f} s"
        f"{remark_on(row)}"
    )


def comparison_table(document: Document) -> Group:
    """The table that the command prints, with notes, failures and the verdict."""
    table = FittedTable(COLUMNS, heading(document))
    known = known_latencies_of(document)
    for row in document["rows"]:
        won = row["beats_best_single"] == YES and known.one_device_holds_the_model
        table.add_cells(format_row(row, known), style="bold" if won else "")
    for line in format_known(known):
        table.add_cells(line, style="dim")
    notes = [*document["notes"], *([document["replaced"]] if document["replaced"] else [])]
    if document["resumed"]:
        notes.append(f"{document['resumed']} runs were done before and are taken as they are.")
    return Group(
        *(FittedText(note, style="yellow") for note in notes),
        table,
        *(FittedText(line, style="red") for line in list_failures(document)),
        *(FittedText(line, style="yellow") for line in list_remarks(document["rows"])),
        FittedText(conclusion(document)),
    )


def format_markdown(document: Document) -> str:
    """The same table as Markdown."""
    from placement_gym.bench.report.document import Heading, Table, Text, render_markdown

    rows, known = document["rows"], known_latencies_of(document)
    lines = [format_row(row, known) for row in rows] + format_known(known)
    remarks = [*list_failures(document), *list_remarks(rows)]
    return render_markdown(
        [
            Heading(heading(document), 1),
            *(Text(note, "summary") for note in document["notes"]),
            Table.of(lines),
            *map(Text, [LEGEND, *remarks, conclusion(document)]),
        ]
    )


def describe_replaced(document: Document, folder: Path) -> list[str]:
    """A sentence about the comparison whose table the folder holds, if it is another one."""
    if not (folder / FILE).is_file():
        return []
    try:
        before = check(ComparisonFields, load_json(folder / FILE))
    except UserError as error:
        return [f"{FILE} was damaged and is replaced ({error}); its rows stay in results.jsonl."]
    keys = {row["key"] for row in document["rows"]}
    if {row.key for row in before.rows} <= keys:
        return []
    return [
        f"The table, placements and pictures replace those of {before.model} on "
        f"{', '.join(before.devices)} ({before.env}), whose rows stay in results.jsonl."
    ]


def write_report(document: Document, folder: Path) -> None:
    """Write ``comparison.json`` and ``table.md``."""
    write_text(folder / FILE, json.dumps(document, indent=1) + "\n")
    write_text(folder / "table.md", format_markdown(document))


def draw_runs(document: Document, folder: Path, pictures: str) -> list[str]:
    """Draw ``comparison`` and ``best-so-far``, if a run succeeded.

    Args:
        document: The comparison.
        folder: For the pictures.
        pictures: ``"png"``, ``"svg"`` or ``"pdf"``.

    Returns:
        A note for each picture that could not be drawn.
    """
    from placement_gym.view.figures.results import draw_best_so_far, draw_comparison
    from placement_gym.view.figures.style import draw_if_possible

    rows = _name_seeds(document["rows"])
    if not any(row["latency_ms"] for row in rows):
        return []
    short = (note for note in document["notes"] if len(note) <= TITLE_LETTERS)
    title = "\n".join([heading(document), *short])
    searched = [row for row in document["rows"] if row["agent"] != SINGLE_DEVICE]
    searched.sort(key=lambda row: -(row["speedup"] or 0.0))
    reference_ms, alone_ms = document["reference_ms"], document["best_single_ms"]
    limits = list_limits(document, reference_ms)
    if alone_ms and reference_ms / alone_ms < 0.98 * min([*limits.values(), np.inf]):
        limits["best single device"] = reference_ms / alone_ms
    over = list_limits(document, alone_ms or reference_ms)
    figures = {"comparison": partial(draw_comparison, rows, title, over, not alone_ms)}
    if any(row["curve"] for row in searched):
        figures["best-so-far"] = partial(draw_best_so_far, searched, title, limits)
    notes = [
        draw_if_possible(draw, folder / f"{name}.{pictures}") for name, draw in figures.items()
    ]
    return [note for note in notes if note]


def list_limits(document: Document, base_ms: float | None) -> dict[str, float]:
    """Return what no placement exceeds, by name, as speed-ups over a latency."""
    if not base_ms:
        return {}
    values = {"optimum": document["optimum_ms"], "bound": document["bound_ms"]}
    found = {name: base_ms / value for name, value in values.items() if value}
    return dict([*found.items()][:1])


def _name_seeds(rows: Sequence[Json]) -> list[Json]:
    """Rows whose labels state the seed where there are several."""
    labels = [row["label"] for row in rows]
    several = {label for label in labels if labels.count(label) > 1}
    return [
        row | {"label": f"{row['label']}, seed {row['seed']}"} if row["label"] in several else row
        for row in rows
    ]


def save_placement(bench_env: BenchEnv, row: Json, folder: Path) -> None:
    """Write the finalist of a row as a placement file, if there is one."""
    if row["placement"] is None:
        return
    base = bench_env.base
    assignment = parse_assignment(row["placement"], base.problem)
    placement, file = Placement.of(base.problem, assignment, base.graph), _file_of(row, folder)
    placement.save(file, follow=False)


def draw_placements(
    bench_env: BenchEnv, rows: Sequence[Json], new: Collection[str], folder: Path, pictures: str
) -> list[str]:
    """Draw the finalists of new runs, and of others whose picture is missing.

    Args:
        bench_env: Where they were found.
        rows: Of the comparison.
        new: Keys of the runs that were done now.
        folder: For the pictures.
        pictures: ``"png"``, ``"svg"`` or ``"pdf"``.

    Returns:
        A note for each picture that could not be drawn: it must not cost the results.
    """
    from placement_gym.view.figures.style import draw_if_possible

    notes = []
    for row in rows:
        path = _file_of(row, folder, f".{pictures}")
        if row["placement"] is not None and (row["key"] in new or not path.exists()):
            notes.append(draw_if_possible(partial(draw_finalist, bench_env, row), path))
    return [note for note in notes if note]


def draw_finalist(bench_env: BenchEnv, row: Json) -> Figure:
    """The finalist of a row on its graph."""
    from placement_gym.view.figures.placement import draw_placement

    problem, result = bench_env.base.problem, "failed"
    if row["latency_ms"] is not None:
        result = f"{row['latency_ms']:.4g} ms"
        if bench_env.one_device_holds_the_model:
            result = f"{row['speedup_vs_best_single']:.3f} x the best single device"
    assignment = parse_assignment(row["placement"], problem)
    return draw_placement(problem, assignment, f"{row['model']}, {row['label']}: {result}")


def _file_of(row: Json, folder: Path, suffix: str = ".json") -> Path:
    label, plain = row["label"], PLAIN_LABEL.fullmatch(row["label"])
    shown = label.replace(" ", "--") if plain else label
    name = safe_name(f"{row['model']}-{shown}-seed{row['seed']}".replace(".", "-"))
    if not plain:  # or "annealing 1.5" would share the file of "annealing 1-5"
        name += f"-{hashlib.sha256(label.encode(errors='backslashreplace')).hexdigest()[:8]}"
    return folder / f"{name}{suffix}"
