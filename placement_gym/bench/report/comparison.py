"""The table of a comparison, in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group

from placement_gym.backends import WITHIN_NOISE, YES
from placement_gym.base import Column, FittedTable, FittedText, format_ratio, make_printable
from placement_gym.bench.report.known_latencies import KnownLatencies
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
from placement_gym.bench.run import Json

Document = Mapping[str, Any]

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


def list_failures(document: Document) -> list[FittedText]:
    """A line for each run without a latency; devices that are too small are no faults."""
    return [
        FittedText(explain_failure(row), "" if exceeds_memory(row) else "red")
        for row in document["rows"]
        if row["error"]
    ]


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
    table = FittedTable(COLUMNS, heading(document))
    known, rows = known_latencies_of(document), document["rows"]
    for row in rows:
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
        *list_failures(document),
        *(FittedText(line, style="yellow") for line in list_remarks(rows)),
        FittedText(conclusion(document)),
    )


def format_markdown(document: Document) -> str:
    """The same table as Markdown."""
    from placement_gym.bench.report.document import Heading, Table, Text, render_markdown

    rows, known = document["rows"], known_latencies_of(document)
    lines = [format_row(row, known) for row in rows] + format_known(known)
    remarks = [*(line.text for line in list_failures(document)), *list_remarks(rows)]
    return render_markdown(
        [
            Heading(heading(document), 1),
            *(Text(note, bold=True) for note in document["notes"]),
            Table.of(lines),
            *map(Text, [LEGEND, *remarks, conclusion(document)]),
        ]
    )
