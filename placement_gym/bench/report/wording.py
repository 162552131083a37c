"""Wording of results: numbers of tables, remarks on runs, and the verdict in one sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from placement_gym.backends import DISTURBED_WIN, UNDECIDED, WITHIN_NOISE, YES
from placement_gym.bench.report.known_latencies import KnownLatencies
from placement_gym.bench.run import SINGLE_DEVICE, Json, group_by

GAP = (
    "how far a latency is above the proven optimum, or with ≤ at most, above a bound that no "
    "placement is below"
)

INFEASIBLE = (
    "share of the evaluations whose placement did not fit or run; in brackets, of those "
    "whose placement did not fit as proposed and was repaired first"
)
MISFITS = (
    re.compile(
        r".+ would hold (?P<needed>[\d.]+) (?P<own>\w+), above .+ (?P<limit>[\d.]+) (?P<unit>\w+)"
    ),
    re.compile(
        r".+ holds? (?P<limit>[\d.]+) (?P<unit>\w+), not (?P<needed>[\d.]+)( (?P<own>\w+))?"
        r"( \(.+\))?"
    ),
)
"""The failure of a placement that exceeds a limit, see ``Problem.memory_error``; in rows of version
0.3 it has the limit first."""
MISLEADING = 0.1
"""Share of disturbed evaluations from which a search may be misled. Hand-tuned."""
Rows = Sequence[Json]


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
    """Return whether a row is that of a device which cannot hold the model: a result, no fault."""
    return row["agent"] == SINGLE_DEVICE and bool(describe_memory_error(row["error"]))


def explain_failure(row: Json, where: str = "") -> str:
    """Describe a failed run by agent and reason; a device too small for the model as such."""
    who, why = row["label"], row["error"] or "failed"
    if exceeds_memory(row):
        who, why = f"{row['kwargs']['device']} alone", describe_memory_error(why)
    return ": ".join([", ".join(filter(None, [who, where])), why])


def format_infeasible(rows: Sequence[Json]) -> str:
    """The share of infeasible evaluations of some runs, and of repaired ones if there are any."""
    evaluations = sum(row["evaluations"] for row in rows)
    if not evaluations:
        return "-"
    infeasible, repaired = (
        sum(row[field] or 0 for row in rows) / evaluations for field in ("infeasible", "repaired")
    )
    return f"{infeasible:.0%}" + (f" ({repaired:.0%})" if repaired else "")


def summarize_effort(rows: Rows) -> dict[str, str]:
    """Evaluations, infeasible ones among them and seconds of a typical run, as cells by column."""
    return {
        "evals": f"{np.median([row['evaluations'] for row in rows]):.0f}",
        "infeas.": format_infeasible(rows),
        "wall s": f"{np.median([row['wall_s'] for row in rows]):.2f}",
    }


def format_gap(latency_ms: float, known: KnownLatencies) -> str:
    """Format how far a latency is above the optimum, or with ``≤`` how far at most."""
    reference_ms = known.optimum_ms or known.bound_ms
    if not reference_ms:
        return "-"
    sign = "" if known.optimum_ms else "≤ "
    return f"{sign}{100 * max(latency_ms / reference_ms - 1, 0.0):.1f} %"


def list_remarks(rows: Rows) -> list[str]:
    """A line for each agent with doubtful runs, or that stopped early, and each start as an answer.

    Args:
        rows: All runs on one problem; those of earlier versions say neither.
    """
    return [*list_warnings(rows), *list_stops(rows), *list_starts(rows)]


def is_misled(row: Json) -> bool:
    """Return whether other programs disturbed so much of a search that it may be misled."""
    return (row.get("disturbed") or 0) > MISLEADING * row.get("evaluations", 0)


def list_warnings(rows: Rows) -> list[str]:
    """A line for each agent with doubtful runs, and with some that others disturbed."""
    lines = []
    for label, agent_rows in group_by("label", rows).items():
        doubtful = [row["warning"] for row in agent_rows if row.get("warning")]
        share = f" in {len(doubtful)} of {len(agent_rows)} runs" if len(agent_rows) > 1 else ""
        lines += [f"{label} is doubtful{share}: {doubtful[0]}"] if doubtful else []
        reliable = [row for row in agent_rows if not row.get("warning")]
        interference = max((row.get("interference", 0.0) for row in reliable), default=0.0)
        lines += [DISTURBED_WIN.format(label, interference)] if interference else []
        misled = list(filter(is_misled, agent_rows))
        share = count_share(len(misled), len(agent_rows))
        lines += [describe_disturbed(label, share, misled[0])] if misled else []
    return lines


def describe_disturbed(label: str, share: str, row: Json) -> str:
    """Say how much of a search other programs disturbed, for one of its runs."""
    return (
        f"{label}{share}: other programs disturbed {row['disturbed']} of {row['evaluations']} "
        "evaluations, which can mislead a search: run it again on an idle machine"
    )


def list_stops(rows: Rows) -> list[str]:
    """A line for each agent whose search ended by itself before its budget."""
    lines = []
    for label, agent_rows in group_by("label", rows).items():
        stopped = [row for row in agent_rows if row.get("stopped")]
        if stopped:
            spent = sorted({row["evaluations"] for row in stopped})
            span = str(spent[0]) if len(spent) == 1 else f"{spent[0]} to {spent[-1]}"
            budget = max(row["budget"] for row in stopped)
            share = count_share(len(stopped), len(agent_rows))
            lines.append(
                f"{label}{share}: stopped after {span} of {budget} evaluations: its search ended "
                "by itself"
            )
    return lines


def list_starts(rows: Rows) -> list[str]:
    """A line for each start of a search that is the answer of some agents."""
    agents: dict[str, list[str]] = {}
    for label, agent_rows in group_by("label", rows).items():
        starts = [row.get("start", "") for row in agent_rows]
        for start in dict.fromkeys(filter(None, starts)):
            share = count_share(starts.count(start), len(agent_rows))
            agents.setdefault(start, []).append(f"{label}{share}")
    return [
        f"{', '.join(who)}: the answer is {'its' if len(who) == 1 else 'their'} start, "
        f"{describe_start(start)}"
        for start, who in agents.items()
    ]


def describe_start(start: str) -> str:
    """A start in words, as "milp's placement" or "GPU alone"."""
    return start if start.endswith(" alone") else f"{start}'s placement"


def count_share(part: int, all_runs: int) -> str:
    """Format how many of several runs, in parentheses; nothing for all of them."""
    return "" if part == all_runs else f" ({part} of {all_runs} runs)"


def remark_on(row: Mapping[str, Any]) -> str:
    """Return what is remarkable about a run, to follow its result; empty if nothing is."""
    stopped = f"; stopped by itself, the budget was {row['budget']}" if row.get("stopped") else ""
    start = row.get("start", "")
    return stopped + (f"; the answer is its start, {describe_start(start)}" if start else "")


def state_verdict(rows: Rows, one_device_holds_the_model: bool = True) -> str:
    """State in one sentence whether a split is faster than a single device.

    An agent beats the best single device if its finalist does so by more than the noise in more
    than half of its runs; the gain is the median of its runs, as in the table.

    Args:
        rows: All runs on one problem.
        one_device_holds_the_model: Whether some device may run the model alone.
    """
    mixed = [row for row in rows if len(set((row["placement"] or {}).values())) > 1]
    splits = [row for row in mixed if row["speedup_vs_best_single"] is not None]
    if not splits:
        return "No split was measured."
    fastest = max(splits, key=lambda row: row["speedup_vs_best_single"])
    if not one_device_holds_the_model:
        return f"No single device holds the model; {fastest['label']} is the fastest split."
    gains = {
        label: _median_gain(agent_rows) for label, agent_rows in group_by("label", rows).items()
    }
    winners = {label: gain for label, gain in gains.items() if gain is not None}
    if winners:
        best_first = sorted(winners, key=lambda label: -winners[label])
        gain_list = "; ".join(f"{label} by {100 * winners[label]:.1f} %" for label in best_first)
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
    """Runs whose finalist beats the best single device by more than the noise."""
    return sum(row["beats_best_single"] == YES for row in rows)


def _median_gain(rows: Rows) -> float | None:
    """The median gain of all runs, if more than half of them win."""
    gains = [row["speedup_vs_best_single"] for row in rows if row.get("speedup_vs_best_single")]
    return float(np.median(gains)) - 1.0 if 2 * count_wins(rows) > len(rows) else None
