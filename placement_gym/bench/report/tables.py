"""A comparison as a table on the terminal, as Markdown and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, JustifyMethod
from rich.table import Table
from rich.text import Text

Document = Mapping[str, Any]

COLUMNS = (
    "agent",
    "ms",
    "p90",
    "x ref",
    "x best single",
    "subm.",
    "evals",
    "wall s",
    "optimum or bound",
    "gap",
    "beats best single",
)

LEGEND = (
    "ms, p90: median and 90th percentile of the finalist, measured afresh; x: speed-up; submodels: "
    "made by the engine (expected); evals: placements evaluated in search; gap: what ms exceeds "
    "the proven optimum or, where >= stands, the bound that no placement is below"
)


def cells(row: Mapping[str, Any], document: Document) -> list[str]:
    """A result row as the columns of the table."""
    spent = [str(row["evaluations"]), f"{row['wall_s']:.1f}"]
    if row["latency_ms"] is None:
        return [row["label"], *["-"] * 5, *spent, "-", "-", "failed"]
    expected, real = row["n_submodels_expected"], row["n_submodels"]
    return [
        row["label"],
        f"{row['latency_ms']:.2f}",
        "-" if row["latency_p90_ms"] is None else f"{row['latency_p90_ms']:.2f}",
        f"{row['speedup']:.2f}",
        ratio(row["speedup_vs_best_single"], row["noise"]),
        str(real) if real == expected else f"{real} ({expected})",
        *spent,
        *gap(row["latency_ms"], document),
        row["beats_best_single"],
    ]


def ratio(speedup: float, noise: float) -> str:
    """A speed-up with its uncertainty, if it has one."""
    return f"{speedup:.3f} ±{speedup * noise:.3f}" if noise else f"{speedup:.3f}"


def gap(latency_ms: float, document: Document) -> tuple[str, str]:
    """The proven optimum, or a bound below all placements, and how far above it a latency is."""
    proven = document["optimum_ms"] is not None
    least = document["optimum_ms"] if proven else document["bound_ms"]
    if not least:
        return "-", "-"
    sign = "" if proven else ">= "
    return f"{sign}{least:.2f}", f"{100 * max(latency_ms / least - 1, 0.0):.2f} %"


def heading(document: Document) -> str:
    return (
        f"{document['model']} on {', '.join(document['devices'])} ({document['env']}), "
        f"reference {document['reference']}"
    )


def conclusion(document: Document) -> str:
    """One sentence that answers the question the user came with."""
    return ("Interrupted. " if document["interrupted"] else "") + answer(document)


def failures(document: Document) -> list[str]:
    """A line for each run without a latency."""
    return [f"{row['label']}: {row['error']}" for row in document["rows"] if row["error"]]


def answer(document: Document) -> str:
    splits = [row for row in document["rows"] if len(set((row["placement"] or {}).values())) > 1]
    if not splits:
        return "No split was measured."
    best = max(splits, key=lambda row: row["speedup_vs_best_single"])
    if document["best_single_ms"] is None:
        return f"No single device holds the model; {best['label']} is the fastest split."
    if best["beats_best_single"] == "yes":
        gain = 100 * (best["speedup_vs_best_single"] - 1)
        return f"{best['label']} beats the best single device by {gain:.1f} %."
    if best["beats_best_single"] == "within noise":
        return f"No split beats the best single device; {best['label']} equals it within noise."
    return "No split beats the best single device."


def terminal(document: Document) -> Group:
    """What the command prints."""
    table = Table(title=heading(document), title_justify="left", box=SIMPLE_HEAD)
    for column in COLUMNS:
        side: JustifyMethod = "left" if column in (COLUMNS[0], COLUMNS[-1]) else "right"
        table.add_column(fill(column, 10), justify=side, no_wrap=True)
    for row in document["rows"]:
        table.add_row(
            *cells(row, document), style="bold" if row["beats_best_single"] == "yes" else ""
        )
    lines = [Text(note, style="yellow") for note in document["notes"]]
    failed = [Text(line, style="red") for line in failures(document)]
    return Group(*lines, table, Text(LEGEND, style="dim"), *failed, Text(conclusion(document)))


def markdown(document: Document) -> str:
    """The same table for a file."""
    lines = [f"# {heading(document)}", ""]
    lines += [f"**{note}**\n" for note in document["notes"]]
    lines += [" | ".join(("", *COLUMNS, "")).strip(), "|" + " --- |" * len(COLUMNS)]
    lines += [" | ".join(("", *cells(row, document), "")).strip() for row in document["rows"]]
    lines += ["", LEGEND, "", *(f"- {line}" for line in failures(document))]
    lines += ["", conclusion(document), ""]
    return "\n".join(lines)


def write_report(document: Document, folder: Path) -> None:
    """Write ``table.md`` and, if there is a bar to draw, ``comparison.png``."""
    from placement_gym.plots.placement import draw_comparison, save

    (folder / "table.md").write_text(markdown(document))
    if any(row["latency_ms"] for row in document["rows"]):
        title = "\n".join([heading(document), *document["notes"]])
        save(draw_comparison(document["rows"], title), folder / "comparison.png")
