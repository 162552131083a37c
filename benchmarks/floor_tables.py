"""Tables of ``floors.py``: mean scores of placers at each budget.

A score is the best known latency over the latency that is reached, and 0 where nothing feasible was
found in time. Of each problem the median over seeds counts, and the mean over problems is shown.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = Mapping[str, Any]
Problem = tuple[str, str]
Budget = tuple[float, str]

COLUMNS = (
    "agent", "repair", "model", "devices", "budget", "latency_ms", "best_known_ms", "score",
    "infeasible", "evaluations", "seeds", "errors",
)  # fmt: skip


def write_tables(rows: Sequence[Row], out: Path, command: str) -> str:
    """Write ``floors.csv``, a line for each placer, problem and budget, and ``floors.md``.

    Returns:
        The Markdown.
    """
    known_ms = find_best_known(rows)
    lines = [line for group in group_rows(rows) for line in summarize(*group, known_ms)]
    with (out / "floors.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(lines)
    text = f"{describe(rows, known_ms)}\n\n{make_table(lines)}\n\n    {command}\n"
    (out / "floors.md").write_text(text)
    return text


def find_best_known(rows: Sequence[Row]) -> dict[Problem, float]:
    """The least latency in ms of each problem that is known or was found in these rows."""
    known: dict[Problem, float] = {}
    for row in rows:
        problem = row["model"], row["devices"]
        found = [point[2] for point in row["curve"][-1:]]
        known[problem] = min(known.get(problem, np.inf), row["best_known_ms"], *found)
    return known


def group_rows(rows: Sequence[Row]) -> Iterator[tuple[Budget, list[Row]]]:
    """The rows of each placer and problem that ran for a budget, with that budget."""
    groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        for unit in ("evaluations", "seconds"):
            for amount in row[unit]:
                who = row["agent"], row["repair"], row["model"], row["devices"]
                groups[*who, amount, unit].append(row)
    for key, mine in groups.items():
        yield (key[-2], key[-1]), mine


def summarize(
    budget: Budget, rows: Sequence[Row], known_ms: Mapping[Problem, float]
) -> Iterator[dict[str, Any]]:
    """The line of one placer, problem and budget."""
    amount, unit = budget
    first = rows[0]
    best_ms = known_ms[first["model"], first["devices"]]
    found = [latency_at(row, budget) for row in rows]
    counts = np.array([row["at"][f"{amount} {unit}"] for row in rows])
    latency_ms = float(np.median(found))
    yield {
        "agent": first["agent"],
        "repair": "yes" if first["repair"] else "no",
        "model": first["model"],
        "devices": first["devices"],
        "budget": f"{amount:g} {unit}",
        "latency_ms": f"{latency_ms:.7g}",
        "best_known_ms": f"{best_ms:.7g}",
        "score": f"{best_ms / latency_ms:.4f}",
        "infeasible": f"{counts[:, 1].sum() / max(counts[:, 0].sum(), 1):.4f}",
        "evaluations": int(np.median(counts[:, 0])),
        "seeds": len(rows),
        "errors": sum(bool(row["error"]) for row in rows),
    }


def latency_at(row: Row, budget: Budget) -> float:
    """The least latency in ms within a budget, infinite without any.

    What solves within a time limit before its first evaluation may overrun the seconds by that one.
    """
    amount, unit = budget
    at = 0 if unit == "evaluations" else 1
    within = [point[2] for point in row["curve"] if point[at] <= amount]
    if not within and row["kind"] == "timed":
        within = [point[2] for point in row["curve"][:1]]
    return within[-1] if within else np.inf


def make_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """The Markdown table of mean scores."""
    order = dict.fromkeys(sorted({line["budget"] for line in lines}, key=sort_key))
    by_placer: defaultdict[tuple[str, str], defaultdict[str, list[Any]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for line in lines:
        by_placer[line["agent"], line["repair"]][line["budget"]].append(line)
    titles = ["placer", "repair"]
    for budget in order:
        titles += [budget, "infeasible" if "evaluations" in budget else "evaluations"]
    table = [titles, ["---"] * len(titles)]
    for who, by_budget in by_placer.items():
        table.append([*who, *(cell for budget in order for cell in cells(by_budget[budget]))])
    return "\n".join("| " + " | ".join(row) + " |" for row in table)


def cells(lines: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Mean score, and the share of infeasible evaluations or the median of all evaluations."""
    if not lines:
        return "-", "-"
    score = np.mean([float(line["score"]) for line in lines])
    if "evaluations" in lines[0]["budget"]:
        share = np.mean([float(line["infeasible"]) for line in lines])
        return f"{score:.3f}", f"{share:.0%}"
    return f"{score:.3f}", f"{np.median([line['evaluations'] for line in lines]):,.0f}"


def sort_key(budget: str) -> tuple[str, float]:
    amount, unit = budget.split()
    return unit, float(amount)


def describe(rows: Sequence[Row], known_ms: Mapping[Problem, float]) -> str:
    """What the table shows."""
    problems = {(row["model"], row["devices"]) for row in rows}
    seeds = len({row["seed"] for row in rows})
    failed = sum(bool(row["error"]) for row in rows)
    return (
        f"Mean over {len(problems)} problems of each problem's median score over {seeds} seeds; "
        "score = best known latency / latency, 0 if nothing feasible was found in time. "
        f"{failed} of {len(rows)} runs failed. "
        "Best known: the least of earlier values and of this run."
    )
