"""Cells of tables, remarks on runs, and the verdict in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from placement_gym.backends import DISTURBED_WIN, UNDECIDED, WITHIN_NOISE, YES
from placement_gym.base import UserError
from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.run import SINGLE_DEVICE, Json, group_by, load_bundled

GAP = "above the optimum (≤: a bound)"
INFEASIBLE = "share that did not fit or run (was repaired)"
"""Meanings of columns."""
MISFITS = (
    re.compile(
        r".+ would hold (?P<needed>[\d.]+) (?P<own>\w+), above .+ (?P<limit>[\d.]+) (?P<unit>\w+)"
    ),
    re.compile(
        r".+ holds? (?P<limit>[\d.]+) (?P<unit>\w+), not (?P<needed>[\d.]+)( (?P<own>\w+))?"
        r"( \(.+\))?"
    ),
)
"""Errors of ``Problem.memory_error``, now and in rows of version 0.3."""
MISLEADING = 0.1
"""Share of disturbed evaluations that may mislead a search. Hand-tuned."""
Rows = Sequence[Json]


def explain_agents(names: Iterable[str]) -> str:
    """Explain what shipped agents do, other than single devices."""
    try:
        about = load_bundled("agents.about:ABOUT")
    except UserError:  # another package of this name hides the agents
        return ""
    known = [name for name in dict.fromkeys(names) if name in about and name != SINGLE_DEVICE]
    return "; ".join(f"{name}: {about[name].line}" for name in known)


def describe_memory_error(error: str) -> str:
    """``"does not fit, 51 of 102 MB"`` where memory is too small, else an empty string."""
    match = next(filter(None, (misfit.fullmatch(error) for misfit in MISFITS)), None)
    if match is None:
        return ""
    limit, needed = (
        f"{float(size):.0f}" if float(size) >= 10 else size
        for size in match.group("limit", "needed")
    )
    unit, needed_unit = match["unit"], match["own"] or match["unit"]
    limit = limit if unit == needed_unit else f"{limit} {unit}"
    return f"does not fit, {limit} of {needed} {needed_unit}"


def exceeds_memory(row: Json) -> bool:
    """Return whether a row is of a device that cannot hold the model: a result, no failure."""
    return row["agent"] == SINGLE_DEVICE and bool(describe_memory_error(row["error"]))


def explain_failure(row: Json, where: str = "") -> str:
    """Describe a failed run, or a device too small for the model."""
    who, why = row["label"], row["error"] or "failed"
    if exceeds_memory(row):
        who, why = f"{row['kwargs']['device']} alone", describe_memory_error(why)
    return ": ".join([", ".join(filter(None, [who, where])), why])


def format_infeasible(rows: Sequence[Json]) -> str:
    """The share of infeasible evaluations of runs, with that of repaired ones if there are any."""
    evaluations = sum(row["evaluations"] for row in rows)
    if not evaluations:
        return "-"
    infeasible, repaired = (
        sum(row[field] or 0 for row in rows) / evaluations for field in ("infeasible", "repaired")
    )
    return f"{infeasible:.0%}" + (f" ({repaired:.0%})" if repaired else "")


def summarize_effort(rows: Rows) -> dict[str, str]:
    """Median evaluations and seconds of runs with the share of infeasible ones, as cells."""
    return {
        "evals": f"{np.median([row['evaluations'] for row in rows]):.0f}",
        "infeas.": format_infeasible(rows),
        "wall s": f"{np.median([row['wall_s'] for row in rows]):.2f}",
    }


def format_gap(latency_ms: float, known: KnownLatencies) -> str:
    reference_ms = known.optimum_ms or known.bound_ms
    if not reference_ms:
        return "-"
    sign = "" if known.optimum_ms else "≤ "
    return f"{sign}{100 * max(latency_ms / reference_ms - 1, 0.0):.1f} %"


def list_remarks(rows: Rows) -> list[str]:
    """Remarks on the runs on a problem: doubtful, disturbed, stopped early, or equal to a start."""
    lines, started = list[str](), dict[str, list[str]]()
    for label, runs in group_by("label", rows).items():
        reliable = [row for row in runs if not row.get("warning")]
        if doubtful := [row for row in runs if row.get("warning")]:
            who = name_share(label, doubtful, runs)
            lines.append(f"{who} is doubtful: {doubtful[0]['warning']}")
        if interference := max((row.get("interference", 0.0) for row in reliable), default=0.0):
            lines.append(DISTURBED_WIN.format(label, interference))
        if misled := [row for row in runs if is_misled(row)]:
            share = f"{misled[0]['disturbed']} of {misled[0]['evaluations']} evaluations"
            lines.append(
                f"{name_share(label, misled, runs)}: other programs disturbed {share}, which can "
                "mislead a search: run it again on an idle machine"
            )
        if stopped := [row for row in runs if row.get("stopped")]:
            spent = sorted({row["evaluations"] for row in stopped})
            span = str(spent[0]) if len(spent) == 1 else f"{spent[0]} to {spent[-1]}"
            budget = max(row["budget"] for row in stopped)
            lines.append(
                f"{name_share(label, stopped, runs)}: stopped after {span} of {budget} "
                "evaluations: its search ended by itself"
            )
        for start, those in group_by("start", [row for row in runs if row.get("start")]).items():
            started.setdefault(start, []).append(name_share(label, those, runs))
    return lines + [
        f"{', '.join(who)}: the answer is {'its' if len(who) == 1 else 'their'} start, "
        f"{describe_start(start)}"
        for start, who in started.items()
    ]


def is_misled(row: Json) -> bool:
    """Return whether other programs may have misled a search."""
    return (row.get("disturbed") or 0) > MISLEADING * row.get("evaluations", 0)


def name_share(label: str, part: Rows, runs: Rows) -> str:
    """An agent, with the number of its runs that are meant unless all are."""
    return label if len(part) == len(runs) else f"{label} ({len(part)} of {len(runs)} runs)"


def describe_start(start: str) -> str:
    """Describe a start, as in "milp's placement" or "GPU alone"."""
    return start if start.endswith(" alone") else f"{start}'s placement"


def remark_on(row: Mapping[str, Any]) -> str:
    stopped = f"; stopped by itself, the budget was {row['budget']}" if row.get("stopped") else ""
    start = row.get("start", "")
    return stopped + (f"; the answer is its start, {describe_start(start)}" if start else "")


def state_verdict(rows: Rows, one_device_holds_the_model: bool = True) -> str:
    """State in one sentence whether a split beats the best single device on a problem.

    An agent's does if its finalist is faster beyond the noise in more than half of its runs; the
    gain is the median of its runs.
    """
    mixed = [row for row in rows if len(set((row["placement"] or {}).values())) > 1]
    splits = [row for row in mixed if row["speedup_vs_best_single"] is not None]
    if not splits:
        return "No split was measured."
    fastest = max(splits, key=lambda row: row["speedup_vs_best_single"])
    if not one_device_holds_the_model:
        return f"No single device may run the model; {fastest['label']} is the fastest split."
    gains = {
        label: np.nanmedian([row.get("speedup_vs_best_single") or np.nan for row in runs]) - 1.0
        for label, runs in group_by("label", rows).items()
        if 2 * count_wins(runs) > len(runs)
    }
    if gains:
        best_first = sorted(gains, key=lambda label: -gains[label])
        gain_list = "; ".join(f"{label} by {100 * gains[label]:.1f} %" for label in best_first)
        return f"Faster than the best single device: {gain_list}."
    doubtful = [row for row in splits if row["warning"]]
    if doubtful:
        return UNDECIDED.format("a split beats the best single device", doubtful[0]["warning"])
    if any(row["beats_best_single"] == YES for row in rows):
        return "No agent beats the best single device in most of its runs."
    if fastest["beats_best_single"] == WITHIN_NOISE:
        label = fastest["label"]
        return f"No split beats the best single device; {label} equals it within noise."
    return "No split beats the best single device."


def count_wins(rows: Rows) -> int:
    """Count runs whose finalist beats the best single device beyond the noise."""
    return sum(row["beats_best_single"] == YES for row in rows)
