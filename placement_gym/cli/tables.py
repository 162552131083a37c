"""Tables that ``plan``, ``profile``, ``fidelity`` and ``evaluate`` print."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType

from placement_gym.backends import DISTURBED_WIN, NO, UNDECIDED, WITHIN_NOISE, YES
from placement_gym.base import (
    Column,
    FileError,
    FittedTable,
    FittedText,
    format_bytes,
    format_noise,
    format_ratio,
    join_words,
)
from placement_gym.cli.options import print_json

Document = Mapping[str, Any]
VERBOSE_WIDTH = 240
"""Characters of a line with `--verbose`: wide enough for every column."""
FILES = "All placements and the scatter plot are in {out}/"
BEFORE = ("PIPELINE_PARALLEL", "fill-in-order")
"""Candidates that show the memory use without a plan."""


def print_result(
    options: argparse.Namespace, document: Document, make: Callable[[], RenderableType]
) -> None:
    """Print a document as JSON if ``--json`` was given, otherwise as ``make`` renders it.

    Raises:
        FileError: The files of the document could not be written; printed last.
    """
    if not print_json(options, document):
        Console(width=VERBOSE_WIDTH if options.verbose else None).print(make(), crop=False)
    if document.get("unsaved"):
        sys.stdout.flush()
        raise FileError(f"these results are not saved: {document['unsaved']}")


def profile_table(document: Document) -> Group:
    """Make the table of a profile: times of each device alone, and costs of transfers."""
    columns = (Column("device", text=True), Column("whole model, ms"))
    table = FittedTable(
        [*columns, Column("slowest units, ms", text=True)],
        f"{document['model']}, {document['costs']}",
    )
    for device in document["devices"]:
        slowest = (f"{unit} {ms:.2f}" for unit, ms in device["slowest"].items())
        table.add_row(device["name"], f"{device['ms']:.2f}", ", ".join(slowest))
    lines = [
        FittedText(
            f"{' and '.join(link['devices'])}: {link['transfer_ms']:.3f} ms a transfer, "
            f"{link['ms_per_megabyte']:.3f} ms a megabyte"
        )
        for link in document["links"]
    ]
    lines.append(FittedText(f"{document['submodel_ms']:.3f} ms a submodel"))
    if document["file"]:
        lines.append(FittedText(f"The cost table is {document['file']}", "dim"))
    return Group(table, *lines)


def evaluation_table(values: Document) -> Group:
    """Make the table of what ``evaluate`` measured, with its verdict."""
    table = FittedTable(
        [Column("", text=True), Column("ms"), Column("x best single"), Column("submodels")],
        f"{values['model']}, measured again",
    )
    n_submodels, expected = values["n_submodels"], values["n_submodels_expected"]
    ratio, best_ms = values["speedup_vs_best_single"], values["best_single_ms"]
    table.add_row(
        "the placement",
        f"{values['latency_ms']:.2f}",
        "-" if ratio is None else format_ratio(ratio, values["noise"]),
        str(n_submodels) if n_submodels == expected else f"{n_submodels} ({expected} expected)",
    )
    table.add_row("90th percentile", f"{values['latency_p90_ms']:.2f}", "", "")
    if best_ms is not None:
        table.add_row("the best single device", f"{best_ms:.2f}", "1.000", "")
    table.add_row("the reference device", f"{values['reference_ms']:.2f}", "", "")
    # A verdict needs a measurement that decides; other statements come first.
    verdict = {
        YES: "It beats the best single device.",
        NO: "It does not beat the best single device.",
        WITHIN_NOISE: "It equals the best single device within noise.",
        None: "No single device may run the model; the reference exceeded its memory limit.",
    }[values["beats_best_single"]]
    if values["alone"]:
        verdict = "The placement uses one device only: there is no split to compare."
    lines = []
    if values.get("requests_per_s"):
        lines.append(describe_requests(values))
    if parts := describe_scenario(values):
        lines.append(f"Scenario {values['scenario']}: {parts}")
    if values["warning"] and best_ms is None:
        lines.append(f"The measurement is doubtful: {values['warning']}.")
    elif values["warning"] and not values["alone"]:
        verdict = UNDECIDED.format("it beats the best single device", values["warning"])
    elif values["interference"]:
        lines.append(DISTURBED_WIN.format("The placement", values["interference"]))
    notes = (FittedText(note, "yellow") for note in values["notes"])
    saved = FittedText(values["saved"], "bold")
    return Group(saved, *notes, table, *map(FittedText, [*lines, verdict]))


def plan_table(document: Document) -> Group:
    """Make the table of candidates, with the plan in bold."""
    table = FittedTable(
        [
            Column("candidate", text=True),
            Column("predicted ms", spare=2),
            Column("measured ms"),
            Column("x best single"),
            Column("submodels", spare=1),
        ],
        f"{document['model']} on {', '.join(document['devices'])}",
    )
    for row in document["rows"]:
        measured, speedup = row["measured_ms"], row["speedup"]
        table.add_row(
            row["label"],
            f"{row['predicted_ms']:.2f}",
            "-" if measured is None else f"{measured:.2f}",
            "-" if speedup is None else format_ratio(speedup, row["noise"]),
            "-" if measured is None else str(row["n_submodels"]),
            style="bold" if row["label"] == document["plan"] else "",
        )
    # What needs attention stands above the table, before the figures that it concerns.
    lines = [FittedText(document["saved"], "bold")]
    lines += [FittedText(note, "yellow") for note in document["notes"]]
    lines += [line for row in document["rows"] for line in remark_on_candidate(row)]
    lines += describe_held(document)
    # Where the files are comes last, next to the prompt.
    phases = document.get("phases", {})
    meanings = [f"{name}: {meaning}" for name, meaning in document.get("meanings", {}).items()]
    end = f"Done in {document['wall_s']:.0f} s."
    if document["file"]:
        end += f" The plan is {' and '.join(phases.get('files', [document['file']]))}"
    if document.get("exported"):
        end += f", for OpenVINO alone {document['exported']}/run.py"
    return Group(
        *lines,
        table,
        *([FittedText("; ".join(meanings), "dim")] if meanings else []),
        *models_tables(document),
        *memory_tables(document),
        FittedText(document["verdict"]),
        *([FittedText(phases["verdict"])] if phases else []),
        FittedText(explain_bound(document) + end, "dim"),
    )


def remark_on_candidate(row: Document) -> Iterator[FittedText]:
    """Describe a candidate: its error or warning, phases, equal candidates, requests."""
    label = row["label"]
    if row["error"]:
        yield FittedText(f"{label}: {row['error']}", "red")
    if row["warning"]:
        yield FittedText(f"{label} is doubtful: {row['warning']}", "yellow")
    elif row.get("interference"):
        yield FittedText(DISTURBED_WIN.format(label, row["interference"]), "yellow")
    if parts := describe_scenario(row):
        yield FittedText(f"{label}: {parts}")
    if row.get("also"):
        yield FittedText(f"{label}: {join_words(row['also'])} found the same placement")
    if row.get("requests_per_s") is not None:
        yield FittedText(f"{label}: {describe_requests(row)}")


def describe_held(document: Document) -> list[FittedText]:
    """Compare the memory that devices report under the plan with the weights placed there."""
    plan = next(row for row in document["rows"] if row["label"] == document["plan"])
    values = zip(
        document["devices"], plan.get("memory_bytes", ()), plan.get("held_bytes", ()), strict=False
    )
    return [
        FittedText(
            f"{document['plan']}: {device} reports {format_bytes(used_bytes)} in use; "
            f"{format_bytes(weight_bytes)} of weights were placed there"
        )
        for device, weight_bytes, used_bytes in values
        if used_bytes is not None
    ]


def models_tables(document: Document) -> list[FittedTable]:
    """Make a table of each model's rate and latency under each candidate; none for one model."""
    rows = [row for row in document["rows"] if row.get("models")]
    if not rows:
        return []
    table = FittedTable(
        [Column("candidate", text=True), *(Column(name) for name in rows[0]["models"])],
        "inferences a second, median latency from start to result",
    )
    for row in rows:
        cells = [
            f"{model['inferences_per_s']:.1f}/s {model['latency_ms']:.1f} ms"
            for model in row["models"].values()
        ]
        style = "bold" if row["label"] == document["plan"] else ""
        table.add_row(row["label"], *cells, style=style)
    return [table]


def memory_tables(document: Document) -> list[FittedTable]:
    """Make tables of each device's memory with and without the plan; none without limits."""
    memory = document.get("memory", {"devices": []})
    limits = [device["limit_bytes"] or device["reported_bytes"] for device in memory["devices"]]
    if not any(limits):
        return []
    states = any(row["state"] for rows in memory["placements"].values() for row in rows)
    unit = "weights + cache" if states else "weights"
    labels_shown = [label for label in BEFORE if label in memory["placements"]]
    labels = list(dict.fromkeys([*labels_shown, document["plan"]]))
    columns = [
        Column("device", text=True, whole=True),
        Column("limit", text=True),
        *(Column(label, spare=len(labels) - 1 - index) for index, label in enumerate(labels)),
    ]
    table = FittedTable(columns, unit)
    for position, device in enumerate(memory["devices"]):
        placements = [memory["placements"][label] for label in labels]
        table.add_row(
            device["name"],
            show_limit(device),
            *(show_bytes(rows, memory["devices"], position, states) for rows in placements),
        )
    return [table]


def show_limit(device: Document) -> str:
    """Describe what fits on a device or its pool, and what an integrated device reports."""
    limit, reported = device["limit_bytes"], device["reported_bytes"]
    words = [] if limit is None else [format_bytes(limit)]
    if limit is not None and device["pool"]:
        words[0] += f" in {device['pool']}"
    if reported is not None:
        words.append(f"{format_bytes(reported)} reported")
    return ", ".join(words) or "none"


def describe_scenario(row: Document) -> str:
    """The latencies of a scenario's parts; empty where there are none."""
    if row.get("step_ms") is not None:
        return f"{row['step_ms']:.2f} ms a step"
    if row.get("prefill_ms") is None:
        return ""
    summary = f"prefill {row['prefill_ms']:.2f} ms, {row['token_ms']:.2f} ms a token"
    if row.get("handover_ms") is None:
        return summary
    return f"{summary}, {row['handover_ms']:.2f} ms to transfer the state"


def show_bytes(
    rows: Sequence[Document], devices: Sequence[Document], position: int, states: bool
) -> str:
    """Bytes of weights and, where any device has it, of state; marked beyond the limit."""
    own_bytes, device = rows[position], devices[position]
    text = format_bytes(own_bytes["weights"])
    if states:
        text += f" + {format_bytes(own_bytes['state'])}"
    sharing = [
        device_bytes["weights"] + device_bytes["state"]
        for device_bytes, other in zip(rows, devices, strict=True)
        if other is device or (device["pool"] and other["pool"] == device["pool"])
    ]
    limit = device["limit_bytes"]
    return f"{text} (!)" if limit is not None and sum(sharing) > limit else text


def describe_requests(values: Document) -> str:
    """Describe results a second and requests in flight."""
    return (
        f"{values['requests_per_s']:.1f} requests a second; {values['requests']} in flight, "
        f"NUM_STREAMS {values['streams']}"
    )


def explain_bound(document: Document) -> str:
    """State the bound next to a prediction by the same profile; measurements may be lower."""
    if document["bound_ms"] is None:
        return ""
    if document["bound_ms"] <= 0.0:
        return "The solver found no lower bound in time; --time-limit allows more. "
    # Prefer a single device that runs the model: a split has to beat it.
    ran = [row for row in document["rows"] if not row["error"]]
    row = min(ran, key=lambda row: (not row["alone"], row["predicted_ms"]))
    return (
        f"The profile predicts {row['predicted_ms']:.2f} ms for {row['label']}; no placement is "
        f"predicted below {document['bound_ms']:.2f} ms. "
    )


def fidelity_table(document: Document) -> Group:
    """Make the table of how well the twin, and the share of slow work alone, predict."""
    table = FittedTable(
        [
            Column("", text=True),
            Column("Spearman"),
            Column("Kendall", spare=2),
            Column("in the fastest third", spare=3),
            Column("median error"),
            Column("largest", spare=1),
        ],
        f"{document['model']} on {', '.join(document['devices'])}: {len(document['rows'])} "
        "placements",
    )
    for key, label in (("twin", "profiled twin"), ("slow_share", "share of slow work")):
        values = document[key]
        errors = [values.get(name) for name in ("median_error", "largest_error")]
        table.add_row(
            label,
            *(f"{values[name]:.3f}" for name in ("spearman", "kendall", "spearman_fastest_third")),
            *("-" if error is None else f"{100 * error:.1f} %" for error in errors),
        )
    failed = f"{document['failed']} placements failed; " if document["failed"] else ""
    drift = document["reference_ms"] / document["profiled_reference_ms"]
    noise = f"{failed}noise of a measurement {format_noise(document['noise'])}"
    return Group(
        *(FittedText(note, "yellow") for note in document["notes"]),
        table,
        FittedText(f"{noise}; the reference device took {drift:.2f} x its profiled time"),
        *([] if document["unsaved"] else [FittedText(FILES.format(**document), "dim")]),
    )
