"""What ``plan``, ``place``, ``profile`` and ``fidelity`` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from placement_gym.bench.report.formats import format_ratio
from placement_gym.costs.table import CostTable
from placement_gym.problem import Problem
from placement_gym.texts import make_printable

Document = Mapping[str, Any]
COSTS = {
    "profiled": "this machine's profile of it",
    "analytic": "analytic costs, which were not measured (`placement-gym profile` measures them)",
}
"""Where simulated costs come from."""
BEFORE = ("PIPELINE_PARALLEL", "fill-in-order")
"""Candidates that show what devices would hold without a plan."""


def show(text: str, style: str = "") -> Text:
    """Text that the terminal shows as it is: brackets are no markup, escapes no commands."""
    return Text(make_printable(text), style=style)


def profile_table(problem: Problem, costs: CostTable) -> Group:
    """The times of each device alone, and what cuts cost, by a profile."""
    title = show(f"{problem.units.graph.model}, {costs.source}")
    table = Table(title=title, title_justify="left")
    for column in ("device", "whole model, ms", "slowest units"):
        table.add_column(column)
    unit_ms = costs.unit_ms(problem.units)
    for device, name in enumerate(costs.devices):
        slowest = unit_ms[:, device].argsort()[::-1][:3]
        shown = (f"{problem.units.names[unit]} {unit_ms[unit, device]:.2f}" for unit in slowest)
        table.add_row(show(name), f"{unit_ms[:, device].sum():.2f}", show(", ".join(shown)))
    lines = [
        show(
            f"{a} and {b}: {costs.link_ms[i, j]:.3f} ms a transfer, "
            f"{costs.link_ms_per_size[i, j]:.3f} ms a megabyte"
        )
        for i, a in enumerate(costs.devices)
        for j, b in enumerate(costs.devices)
        if i < j
    ]
    return Group(table, *lines, Text(f"{costs.submodel_ms.max():.3f} ms a submodel"))


def plan_table(document: Document) -> Group:
    """The latencies of the candidates, and which one is the plan."""
    title = f"{document['model']} on {', '.join(document['devices'])}"
    table = Table(title=show(title), title_justify="left", box=SIMPLE_HEAD)
    for column in ("candidate", "predicted ms", "measured ms", "x best single", "submodels"):
        table.add_column(column, justify="left" if column == "candidate" else "right")
    for row in document["rows"]:
        measured, speedup = row["measured_ms"], row["speedup"]
        table.add_row(
            show(row["label"]),
            f"{row['predicted_ms']:.2f}",
            "-" if measured is None else f"{measured:.2f}",
            "-" if speedup is None else format_ratio(speedup, row["noise"]),
            "-" if measured is None else str(row["n_submodels"]),
            style="bold" if row["label"] == document["plan"] else "",
        )
    lines = [show(note, "yellow") for note in document["notes"]]
    failed = [row for row in document["rows"] if row["error"]]
    lines += [show(f"{row['label']}: {row['error']}", "red") for row in failed]
    doubtful = [row for row in document["rows"] if row["doubt"]]
    lines += [show(f"{row['label']} is doubtful: {row['doubt']}", "yellow") for row in doubtful]
    lines += [
        show(
            f"{row['label']}: prefill {row['prefill_ms']:.2f} ms, {row['token_ms']:.2f} ms a token"
        )
        for row in document["rows"]
        if row.get("prefill_ms") is not None
    ]
    lines += [
        show(f"{row['label']} is also what {' and '.join(row['also'])} would do")
        for row in document["rows"]
        if row.get("also")
    ]
    end = f"Done in {document['wall_s']:.0f} s. The plan is {document['file']}"
    return Group(
        *lines,
        table,
        *memory_tables(document),
        show(document["verdict"]),
        show(describe_bound(document) + end, "dim"),
    )


def memory_tables(document: Document) -> list[Table]:
    """What each device holds under the plan and before it; no table without memory limits."""
    memory = document.get("memory", {"devices": []})
    if all(device["limit_bytes"] is None for device in memory["devices"]):
        return []
    states = any(held["state"] for one in memory["placements"].values() for held in one)
    unit = "MB of weights + cache" if states else "MB of weights"
    shown = [label for label in BEFORE if label in memory["placements"]]
    labels = list(dict.fromkeys([*shown, document["plan"]]))
    table = Table(title=unit, title_justify="left", box=SIMPLE_HEAD)
    for column in ("device", "limit", *labels):
        style = "bold" if column == document["plan"] else ""
        table.add_column(show(column), justify="left" if column == "device" else "right",
                         style=style)  # fmt: skip
    for position, device in enumerate(memory["devices"]):
        limit = device["limit_bytes"]
        held = [memory["placements"][label][position] for label in labels]
        table.add_row(
            show(device["name"]),
            "none" if limit is None else f"{limit / 1e6:.1f}",
            *(show_held(one["weights"], one["state"], limit, states) for one in held),
        )
    return [table]


def show_held(weights: int, state: int, limit: float | None, states: bool) -> Text:
    """Megabytes of weights and, where any device has it, of state; red beyond the limit."""
    text = f"{weights / 1e6:.1f} + {state / 1e6:.1f}" if states else f"{weights / 1e6:.1f}"
    return show(text, "red" if limit is not None and weights + state > limit else "")


def place_table(document: Document) -> Group:
    """Simulated latencies of the placements, and which one was saved."""
    title = f"{document['model']}, {document['n_units']} units on {', '.join(document['devices'])}"
    table = Table(title=show(title), title_justify="left", box=SIMPLE_HEAD)
    for column in ("placement", "ms", "x best single", "x HEFT", "evaluations", "seconds"):
        table.add_column(column, justify="left" if column == "placement" else "right")
    for row in document["rows"]:
        ratios = ("-" if row[key] is None else f"{row[key]:.3f}" for key in ("speedup", "vs_heft"))
        latency_ms = row["latency_ms"]
        table.add_row(
            show(row["label"]),
            "infeasible" if latency_ms is None else f"{latency_ms:.3f}",
            *ratios,
            str(row["evaluations"] or "-"),
            f"{row['seconds']:.2f}",
            style="bold" if row["label"] == document["placement"] else "",
        )
    costs = COSTS.get(document["costs"], f"costs {document['costs']!r}")
    source = f"Simulated with {costs}, schedule {document['schedule']}; nothing was measured. "
    end = f"Done in {document['wall_s']:.0f} s. The placement is {document['file']}"
    return Group(table, show(document["verdict"]), show(source + end, "dim"))


def describe_bound(document: Document) -> str:
    """State the bound of the profile's model as an estimate: measurements may lie below it."""
    if document["bound_ms"] is None:
        return ""
    bound_ms = f"{document['bound_ms']:.2f} ms"
    return f"The profile's model estimates that no placement takes less than {bound_ms}. "


def fidelity_table(document: Document) -> Group:
    """How well the twin and the plain share of slow work predict measurements."""
    title = f"{document['model']} on {', '.join(document['devices'])}"
    table = Table(title=show(f"{title}: {len(document['rows'])} placements"), title_justify="left")
    for column in ("", "Spearman", "Kendall", "in the fastest third", "median error", "largest"):
        table.add_column(column, justify="right")
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
    noise = f"{failed}noise of a measurement ±{100 * document['noise']:.1f} %"
    return Group(
        *(show(note, "yellow") for note in document["notes"]),
        table,
        Text(f"{noise}; the reference device took {drift:.2f} x its profiled time meanwhile"),
    )
