"""Tables of the rows that ``floors.py`` makes: scores at equal evaluations and at equal seconds."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Row
from summaries import Tables, columns_of, describe_groups, group_by, print_groups

UNITS = {"evaluations": 0, "cpu_seconds": 1}
"""Units of budgets, and their places in the points of curves."""
GENERATED = "synthetic-", "stacked-"
"""How names of generated graphs begin, which are in a table of their own."""
SEARCH = "search"


def write_tables(rows: Sequence[Row], out: Path) -> None:
    """Write ``floors.csv``, a line for each placer, problem and budget; print their means."""
    lines = summarize_all(rows)
    with (out / "floors.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    print(f"{describe(rows)} {find_best_known(rows)[1]}")
    for (unit,), mine in group_by(lines, "unit").items():
        second = "infeasible" if unit == "evaluations" else "evaluations"
        by_size = sorted(mine, key=lambda line: line["budget"])
        columns = columns_of(by_size, "budget", partial(describe_cell, second))
        print_groups(mine, ("agent", "repair"), columns, f"score ({second}) by {unit}")


def summarize_all(rows: Sequence[Row]) -> list[Row]:
    """A line for each placer, problem and budget."""
    known_ms, _ = find_best_known(rows)
    return [
        summarize(unit, amount, mine, known_ms[key[2:]])
        for key, same in group_by(rows, "arm", "repair", "model", "devices").items()
        for unit in UNITS
        for (amount, mine) in by_budget(same, unit).items()
    ]


def by_budget(rows: Sequence[Row], unit: str) -> dict[float, list[Row]]:
    """Budget -> the rows of runs that had it."""
    amounts = sorted({amount for row in rows for amount in row.get(unit, ())})
    return {one: [row for row in rows if one in row.get(unit, ())] for one in amounts}


def find_best_known(rows: Sequence[Row]) -> tuple[dict[tuple[Any, ...], float], str]:
    """The least latency in ms of each problem that is known or in these rows, and its source."""
    best, unknown, faster = {}, 0, 0
    for problem, mine in group_by(rows, "model", "devices").items():
        known = min(row["best_known_ms"] or np.inf for row in mine)
        found = min((row["curve"][-1][2] for row in mine if row["curve"]), default=np.inf)
        best[problem] = min(known, found)
        unknown += np.isinf(known)
        faster += found < (1.0 - 1e-9) * known < np.inf
    about = f"Best known is the package's value on {len(best) - unknown} problems"
    about += f", but a row's on {faster} of them, where it is faster" if faster else ""
    about += f"; the best of all rows on {unknown} without a value." if unknown else "."
    return best, about


def summarize(unit: str, amount: float, rows: Sequence[Row], best_ms: float) -> Row:
    """The line of one placer, problem and budget."""
    evaluations, infeasible = np.array([row["at"][f"{amount} {unit}"] for row in rows]).T
    latency_ms = float(np.median([latency_at(row, unit, amount) for row in rows]))
    return {
        "agent": rows[0]["arm"],
        "repair": "yes" if rows[0]["repair"] else "no",
        "model": rows[0]["model"],
        "devices": rows[0]["devices"],
        "budget": amount,
        "unit": unit,
        "latency_ms": latency_ms,
        "best_known_ms": best_ms,
        "score": best_ms / latency_ms,
        "infeasible": infeasible.sum() / max(evaluations.sum(), 1),
        "evaluations": int(np.median(evaluations)),
        "seeds": len(rows),
        "errors": sum(bool(row["error"]) for row in rows),
        "bound_ms": rows[0].get("bound_ms"),
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


def describe_cell(second: str, lines: list[Row]) -> str:
    """Mean score over problems; mean infeasible share, or median of all evaluations."""
    values = [line[second] for line in lines]
    text = f"{np.mean(values):.0%}" if second == "infeasible" else f"{np.median(values):,.0f}"
    return f"{np.mean([line['score'] for line in lines]):.3f} ({text})"


def describe(rows: Sequence[Row]) -> str:
    """A sentence on what the tables show."""
    seeds = len({row["seed"] for row in rows})
    failed = sum(bool(row["error"]) for row in rows)
    return (
        f"Mean over {len(group_by(rows, 'model', 'devices'))} problems of each problem's median "
        f"score over at most {seeds} seeds; score = best known latency / latency, 0 if nothing "
        f"feasible was found in time. {failed} of {len(rows)} runs failed."
    )


TABLES: Tables = {
    **{unit: partial(list_scores, unit) for unit in UNITS},
    "problems": list_problems,
    "large": list_large,
}
"""Name -> the table on the page."""
