"""Tables of the rows that ``floors.py`` makes: scores at equal evaluations and at equal seconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from common import Row
from summaries import Tables, columns_of, describe_groups, group_by

UNITS = {"evaluations": 0, "cpu_seconds": 1}
"""Units of budgets, and their places in the points of curves."""
GENERATED = "synthetic-", "stacked-"
"""How names of generated graphs begin, which are in a table of their own."""
SEARCH = "search"


def summarize_all(rows: Sequence[Row]) -> list[Row]:
    """A line for each placer, problem and budget: the median of its runs."""
    known_ms = find_best_known(rows)
    return [
        {
            "agent": arm,
            "model": model,
            "devices": devices,
            "budget": amount,
            "unit": unit,
            "latency_ms": (ms := float(np.median([latency_at(row, unit, amount) for row in mine]))),
            "best_known_ms": known_ms[model, devices],
            "score": known_ms[model, devices] / ms,
            "bound_ms": mine[0].get("bound_ms"),
        }
        for (arm, model, devices), same in group_by(rows, "arm", "model", "devices").items()
        for unit in UNITS
        for amount, mine in by_budget(same, unit).items()
    ]


def by_budget(rows: Sequence[Row], unit: str) -> dict[float, list[Row]]:
    """Budget -> the rows of runs that had it."""
    amounts = sorted({amount for row in rows for amount in row.get(unit, ())})
    return {one: [row for row in rows if one in row.get(unit, ())] for one in amounts}


def find_best_known(rows: Sequence[Row]) -> dict[tuple[Any, ...], float]:
    """The least latency in ms of each problem that is known or in these rows."""
    return {
        problem: min(
            min(row["best_known_ms"] or np.inf for row in mine),
            min((row["curve"][-1][2] for row in mine if row["curve"]), default=np.inf),
        )
        for problem, mine in group_by(rows, "model", "devices").items()
    }


def latency_at(row: Row, unit: str, amount: float) -> float:
    """The least latency in ms within a budget, infinite without any."""
    within = [point[2] for point in row["curve"] if point[UNITS[unit]] <= amount]
    return within[-1] if within else np.inf


def list_scores(unit: str, rows: Sequence[Row]) -> list[Row]:
    """Mean score of each agent on all workloads after each budget; the best last one first."""
    lines = [
        line
        for line in summarize_all(rows)
        if line["unit"] == unit and not line["model"].startswith(GENERATED)
    ]
    lines.sort(key=lambda line: line["budget"])
    last = {
        agent: np.mean([line["score"] for line in mine if line["budget"] == lines[-1]["budget"]])
        for (agent,), mine in group_by(lines, "agent").items()
    }
    columns = columns_of(lines, "budget", describe_score)
    lines.sort(key=lambda line: -last[line["agent"]])
    return describe_groups(lines, ("agent",), columns)


def describe_score(lines: list[Row]) -> str:
    """The mean over problems."""
    return f"{np.mean([line['score'] for line in lines]):.3f}"


def list_problems(rows: Sequence[Row]) -> list[Row]:
    """Scores of ``search`` on each workload, and of the best other agent after 10 seconds."""
    table = []
    lines = [line for line in summarize_all(rows) if not line["model"].startswith(GENERATED)]
    for (model, devices), mine in group_by(lines, "model", "devices").items():
        scores = {(line["agent"], line["unit"], line["budget"]): line["score"] for line in mine}
        others = {key[0]: score for key, score in scores.items()
                  if key[0] != SEARCH and key[1:] == ("cpu_seconds", 10.0)}  # fmt: skip
        best = max(others, key=others.__getitem__)
        row: Row = {
            "workload": model.removesuffix("_inference"),
            "devices": devices,
            "best known, ms": f"{mine[0]['best_known_ms']:.5g}",
        }
        row |= {f"{s:g} s": f"{scores[SEARCH, 'cpu_seconds', s]:.3f}" for s in (0.1, 1.0, 10.0)}
        row |= {f"{n} evaluations": f"{scores[SEARCH, 'evaluations', n]:.3f}" for n in (100, 500)}
        table.append(row | {"best other, 10 s": f"{others[best]:.3f} (`{best}`)"})
    return table


def find_lead(unit: str, rows: Sequence[Row]) -> float:
    """How far ``search`` is behind another agent at the same budget where it is furthest, in %."""
    lines = [line for line in summarize_all(rows) if line["unit"] == unit]
    leads = []
    for mine in group_by(lines, "model", "devices", "budget").values():
        ms = {line["agent"]: line["latency_ms"] for line in mine}
        leads += [ms[SEARCH] / other - 1.0 for other in ms.values() if SEARCH in ms]
    return 100.0 * max(leads)


def list_large(rows: Sequence[Row]) -> list[Row]:
    """Medians on generated graphs, ms."""
    lines = [line for line in summarize_all(rows) if line["model"].startswith(GENERATED)]
    table = []
    for (model,), mine in group_by(lines, "model").items():
        cells = {
            f"{line['agent']}, {line['budget']:g} s": describe_ms(line["latency_ms"])
            for line in mine
        }
        table.append({"graph": model} | cells | {"bound": f"{mine[0]['bound_ms']:.4g}"})
    return table


def describe_ms(latency_ms: float) -> str:
    """A latency, if one was reached in time."""
    return f"{latency_ms:.4g}" if np.isfinite(latency_ms) else "-"


TABLES: Tables = {
    **{unit: partial(list_scores, unit) for unit in UNITS},
    "problems": list_problems,
    "large": list_large,
}
"""Name -> the table on the page."""
