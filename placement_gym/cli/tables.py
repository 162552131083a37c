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
"""Characters of a line with ``--verbose``: every column fits."""
UNPLANNED = ("PIPELINE_PARALLEL", "fill-in-order")
"""Candidates whose memory use tables show next to the plan's."""
SPEEDUP = Column("x best single", meaning="speed-up over the fastest device, 95 % interval")
SUBMODELS = Column("submodels", spare=1, meaning="parts OpenVINO compiles")


def print_result(
    options: argparse.Namespace, document: Document, make: Callable[[], RenderableType]
) -> None:
    """Print a document as JSON or a table; ``FileError`` if its files could not be written."""
    if not print_json(options, document):
        Console(width=VERBOSE_WIDTH if options.verbose else None).print(make(), crop=False)
    if document.get("unsaved"):
        sys.stdout.flush()
        raise FileError(f"these results are not saved: {document['unsaved']}")


def profile_table(document: Document) -> Group:
    table = FittedTable(
        [
            Column("device", text=True, whole=True),
            Column("whole model, ms", meaning="sum of its units"),
            Column("slowest units, ms", text=True),
        ],
        f"{document['model']}, {document['costs']}",
    )
    for device in document["devices"]:
        slowest = (f"{unit} {ms:.2f}" for unit, ms in device["slowest"].items())
        table.add_row(device["name"], f"{device['ms']:.2f}", ", ".join(slowest))
    lines = [
        f"{' and '.join(link['devices'])}: {link['transfer_ms']:.3f} ms a transfer, "
        f"{link['ms_per_megabyte']:.3f} ms a megabyte"
        for link in document["links"]
    ]
    lines.append(f"{document['submodel_ms']:.3f} ms a submodel")
    end = [f"The cost table is {document['file']}"] if document["file"] else []
    return Group(table, *map(FittedText, lines), *(FittedText(line, "dim") for line in end))


def evaluation_table(values: Document) -> Group:
    timed = "between two results" if values.get("requests_per_s") else "latency"
    columns = [Column("", text=True, whole=True), Column("ms", meaning=f"{timed}, median")]
    table = FittedTable([*columns, SPEEDUP, SUBMODELS], f"{values['model']}, measured again")
    n_submodels, expected = values["n_submodels"], values["n_submodels_expected"]
    ratio, best_ms = values["speedup_vs_best_single"], values["best_single_ms"]
    rows = [
        (
            "the placement",
            values["latency_ms"],
            "-" if ratio is None else format_ratio(ratio, values["noise"]),
            str(n_submodels) if n_submodels == expected else f"{n_submodels} ({expected} expected)",
        ),
        ("90th percentile", values["latency_p90_ms"], "", ""),
        ("the best single device", best_ms, "1.000", ""),
        ("the reference device", values["reference_ms"], "", ""),
    ]
    for name, ms, *others in rows:
        if ms is not None:
            table.add_row(name, f"{ms:.2f}", *others)
    verdict = {
        YES: "It beats the best single device.",
        NO: "It does not beat the best single device.",
        WITHIN_NOISE: "It equals the best single device within noise.",
        None: "No single device may run the model; the reference exceeded its memory limit.",
    }[values["beats_best_single"]]
    if values["alone"]:
        verdict = "The placement uses one device only: there is no split to compare."
    lines = [describe_requests(values)] if values.get("requests_per_s") else []
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


def plan_table(document: Document, verbose: bool = False) -> Group:
    in_flight = document.get("objective") == "throughput"
    table = FittedTable(
        [
            Column("candidate", text=True, whole=True),
            Column("predicted ms", spare=2, meaning="by the profile"),
            Column("measured ms", meaning="median time between results" if in_flight else "median"),
            SPEEDUP,
            SUBMODELS,
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
    above = [FittedText(document["saved"], "bold")]
    above += [FittedText(note, "yellow") for note in document["notes"]]
    above += [line for row in document["rows"] for line in remark_on_candidate(row)]
    details = [*list_equal(document), *describe_held(document)]
    verdicts = [part["verdict"] for part in (document, document.get("phases")) if part]
    end = explain_bound(document) + describe_files(document)
    if details and not verbose:
        end += " (-v shows more)"
    return Group(
        *above,
        table,
        *(FittedText(line, "dim") for line in explain_names(document, verbose)),
        *models_tables(document),
        *memory_tables(document),
        *map(FittedText, [*(details if verbose else []), *verdicts]),
        FittedText(end, "dim"),
    )


def explain_names(document: Document, verbose: bool) -> list[str]:
    """Explain the names of candidates in tables; with ``verbose`` also of equal ones."""
    shown = " ".join([*(row["label"] for row in document["rows"]), *UNPLANNED])
    meanings = document.get("meanings", {}).items()
    names = [f"- {name}: {meaning}" for name, meaning in meanings if verbose or name in shown]
    return ["Candidates:", *names] if names else []


def describe_files(document: Document) -> str:
    files = document.get("phases", {}).get("files", [document["file"]])
    text = f"Done in {document['wall_s']:.0f} s."
    if document["file"]:
        text += f" The plan is {' and '.join(files)}"
    if document.get("exported"):
        text += f", for OpenVINO alone {document['exported']}/run.py"
    return text


def remark_on_candidate(row: Document) -> Iterator[FittedText]:
    """Describe a candidate: its error or warning, phases, requests."""
    label = row["label"]
    if row["error"]:
        yield FittedText(f"{label}: {row['error']}", "red")
    if row["warning"]:
        yield FittedText(f"{label} is doubtful: {row['warning']}", "yellow")
    elif row.get("interference"):
        yield FittedText(DISTURBED_WIN.format(label, row["interference"]), "yellow")
    if parts := describe_scenario(row):
        yield FittedText(f"{label}: {parts}")
    if row.get("requests_per_s") is not None:
        yield FittedText(f"{label}: {describe_requests(row)}")


def list_equal(document: Document) -> list[str]:
    """List candidates with the same placement."""
    return [
        f"{row['label']}: {join_words(row['also'])} found the same placement"
        for row in document["rows"]
        if row.get("also")
    ]


def describe_held(document: Document) -> list[str]:
    """Compare the memory that devices report with the weights that the plan places there."""
    plan = next(row for row in document["rows"] if row["label"] == document["plan"])
    values = zip(
        document["devices"], plan.get("memory_bytes", ()), plan.get("held_bytes", ()), strict=False
    )
    return [
        f"{document['plan']}: {device} reports {format_bytes(used_bytes)} in use; "
        f"{format_bytes(weight_bytes)} of weights were placed there"
        for device, weight_bytes, used_bytes in values
        if used_bytes is not None
    ]


def models_tables(document: Document) -> list[FittedTable]:
    """Make the table of each model's rate and latency, if there are several models."""
    rows = [row for row in document["rows"] if row.get("models")]
    if not rows:
        return []
    models = [Column(name, spare=number) for number, name in enumerate(rows[0]["models"])]
    title = "Models: inferences a second, median latency from start to result"
    table = FittedTable([Column("candidate", text=True, whole=True), *models], title)
    for row in rows:
        cells = [
            f"{model['inferences_per_s']:.1f}/s {model['latency_ms']:.1f} ms"
            for model in row["models"].values()
        ]
        style = "bold" if row["label"] == document["plan"] else ""
        table.add_row(row["label"], *cells, style=style)
    return [table]


def memory_tables(document: Document) -> list[FittedTable]:
    """Make the table of each device's memory with and without the plan, if any has a limit."""
    memory = document.get("memory", {"devices": []})
    if not any(device["limit_bytes"] or device["reported_bytes"] for device in memory["devices"]):
        return []
    states = any(row["state"] for rows in memory["placements"].values() for row in rows)
    labels = [label for label in UNPLANNED if label in memory["placements"]]
    labels = list(dict.fromkeys([*labels, document["plan"]]))
    table = FittedTable(
        [
            Column("device", text=True, whole=True),
            Column("limit", text=True, whole=True),
            *(Column(label, spare=len(labels) - 1 - index) for index, label in enumerate(labels)),
        ],
        f"Memory: {'weights + cache' if states else 'weights'}; (!) exceeds the limit",
    )
    for position, device in enumerate(memory["devices"]):
        placements = [memory["placements"][label] for label in labels]
        held = (show_bytes(rows, memory["devices"], position, states) for rows in placements)
        table.add_row(device["name"], show_limit(device), *held)
    return [table]


def show_limit(device: Document) -> str:
    """Describe the memory limit of a device or its pool, and the memory that it reports."""
    limit, reported = device["limit_bytes"], device["reported_bytes"]
    pool = f" in {device['pool']}" if device["pool"] else ""
    words = [] if limit is None else [f"{format_bytes(limit)}{pool}"]
    words += [] if reported is None else [f"{format_bytes(reported)} reported"]
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
    """Bytes of weights, with ``states`` also of state; marked beyond the limit."""
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
    return (
        f"{values['requests_per_s']:.1f} requests a second; {values['requests']} in flight, "
        f"NUM_STREAMS {values['streams']}"
    )


def explain_bound(document: Document) -> str:
    """State the bound next to a prediction by the same profile."""
    if document["bound_ms"] is None:
        return ""
    if document["bound_ms"] <= 0.0:
        return "The solver found no lower bound in time; --time-limit allows more. "
    # A split has to beat a single device, if one runs the model.
    ran = [row for row in document["rows"] if not row["error"]]
    row = min(ran, key=lambda row: (not row["alone"], row["predicted_ms"]))
    return (
        f"The profile predicts {row['predicted_ms']:.2f} ms for {row['label']}; no placement is "
        f"predicted below {document['bound_ms']:.2f} ms. "
    )


def fidelity_table(document: Document) -> Group:
    """Make the table of how well the twin, and the share of slow work, predict latencies."""
    table = FittedTable(
        [
            Column("predictor", text=True, whole=True),
            Column("Spearman", meaning="rank correlation with measurements, at best 1"),
            Column("Kendall", spare=2, meaning="the same by Kendall"),
            Column("in the fastest third", spare=3, meaning="Spearman's among these"),
            Column("median error", meaning="of latencies"),
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
    files = f"All placements and the scatter plot are in {document['out']}/"
    return Group(
        *(FittedText(note, "yellow") for note in document["notes"]),
        table,
        FittedText(f"{noise}; the reference device took {drift:.2f} x its profiled time"),
        *([] if document["unsaved"] else [FittedText(files, "dim")]),
    )
