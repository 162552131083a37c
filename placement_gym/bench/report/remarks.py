"""Lines on results: measurements in doubt, searches that stopped, and answers that were starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_gym.bench.report.verdict import Rows
from placement_gym.bench.run.rows import group_by


def list_remarks(rows: Rows) -> list[str]:
    """A line for each agent with doubtful runs, or that stopped early, and each start as an answer.

    Args:
        rows: All runs on one problem; those of earlier versions say neither.
    """
    return [*list_doubts(rows), *list_stops(rows), *list_starts(rows)]


def list_doubts(rows: Rows) -> list[str]:
    """A line for each agent with doubtful runs, with the first reason."""
    lines = []
    for label, mine in group_by("label", rows).items():
        doubtful = [row["doubt"] for row in mine if row.get("doubt")]
        share = f" in {len(doubtful)} of {len(mine)} runs" if len(mine) > 1 else ""
        lines += [f"{label} is doubtful{share}: {doubtful[0]}"] if doubtful else []
    return lines


def list_stops(rows: Rows) -> list[str]:
    """A line for each agent whose search ended by itself before its budget."""
    lines = []
    for label, mine in group_by("label", rows).items():
        stopped = [row for row in mine if row.get("stopped")]
        if stopped:
            spent = sorted({row["evaluations"] for row in stopped})
            shown = str(spent[0]) if len(spent) == 1 else f"{spent[0]} to {spent[-1]}"
            budget = max(row["budget"] for row in stopped)
            share = count_share(len(stopped), len(mine))
            lines.append(
                f"{label}{share}: stopped after {shown} of {budget} evaluations: its search ended "
                "by itself"
            )
    return lines


def list_starts(rows: Rows) -> list[str]:
    """A line for each start of a search that is the answer of some agents."""
    agents: dict[str, list[str]] = {}
    for label, mine in group_by("label", rows).items():
        starts = [row.get("start", "") for row in mine]
        for start in dict.fromkeys(filter(None, starts)):
            share = count_share(starts.count(start), len(mine))
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
