"""The tables of rows of ``published.py``.

A score is the best latency known over the best of a run; differences to hill climbing are over runs
of the same problem and seed, with bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from common import Row
from summaries import (
    ProblemName,
    Scores,
    Tables,
    average,
    compare_scores,
    find_interval,
    group_by,
)

FLOOR, QUICK = "hill-climb", "hill-climb, quick"
"""What arms are compared with, at equal evaluations and at equal seconds."""
OF_HSDAG = "Duan 2024"
"""First author and year of HSDAG's paper, as lines have them."""
PAIR = ("placeto, paper", "rnn, paper")
"""Whose evaluations until the same latency are compared."""


def list_arms(budget: int | str, floor: str, rows: Sequence[Row]) -> list[Row]:
    """The arms that ran with a budget, best first, and how far each is ahead of one of them."""
    best = find_best(rows)
    runs = group_by((row for row in rows if row["budget"] == budget), "arm")
    scores = {arm: score_runs(mine, best) for (arm,), mine in runs.items()}
    problems = sorted(best)
    return [
        {
            "arm": arm,
            **compare_scores(scores[arm], scores[floor], floor, problems),
            "CPU s": f"{np.mean([row['cpu_s'] for row in runs[arm,]]):.1f}",
            "evaluations": f"{np.median([row['evaluations'] for row in runs[arm,]]):,.0f}",
        }
        for arm in sorted(scores, key=lambda arm: -average(scores[arm], problems))
    ]


def find_best(rows: Sequence[Row]) -> dict[ProblemName, float]:
    """The least latency known of each problem, in ms."""
    return {
        (problem, ""): min(min(row["latency_ms"], row["best_known_ms"] or np.inf) for row in mine)
        for (problem,), mine in group_by(rows, "problem").items()
    }


def score_runs(rows: list[Row], best: dict[ProblemName, float]) -> Scores:
    """Score of each run by problem and seed."""
    return {
        (row["problem"], "", row["seed"]): best[row["problem"], ""] / row["latency_ms"]
        for row in rows
    }


class Pair(NamedTuple):
    """Evaluations of two runs until the worse of their bests, and whether the first's is better."""

    first: int
    second: int
    better: bool


def compare_samples(budget: int, rows: Sequence[Row]) -> list[Row]:
    """How many evaluations two arms need to reach the worse of their bests."""
    curves = {
        (row["problem"], row["seed"], row["arm"]): row["curve"]
        for row in rows
        if row["budget"] == budget and row["arm"] in PAIR
    }
    pairs: dict[str, list[Pair]] = {}
    for problem, seed, arm in curves:
        if arm == PAIR[0]:
            both = (curves[problem, seed, one] for one in PAIR)
            pairs.setdefault(problem.partition("-seed")[0], []).append(count_samples(*both))
    pairs["all"] = [pair for mine in pairs.values() for pair in mine]
    return [{"problem": name, **describe_samples(mine, *PAIR)} for name, mine in pairs.items()]


def count_samples(first: list[Any], second: list[Any]) -> Pair:
    """Compare two curves of evaluations, seconds and best speed-ups."""
    goal = min(first[-1][2], second[-1][2])
    one, other = (
        next(point[0] for point in curve if point[2] >= goal) for curve in (first, second)
    )
    return Pair(one, other, first[-1][2] > second[-1][2])


def describe_samples(pairs: Sequence[Pair], one: str, other: str) -> Row:
    """Medians, the geometric mean of the ratio, and how often the first one's best is better."""
    columns = (one, other, f"{other} over {one} (95 %)", f"{one} better", "runs")
    if len(pairs) < 2:
        return dict(zip(columns, ("-", "-", "-", "-", len(pairs)), strict=True))
    ratio = np.log([pair.second / pair.first for pair in pairs])
    low, high = np.exp(find_interval(ratio))
    medians = (f"{np.median([pair[arm] for pair in pairs]):.0f}" for arm in (0, 1))
    over = f"{np.exp(ratio.mean()):.2f} ({low:.2f}, {high:.2f})"
    better = sum(pair.better for pair in pairs)
    return dict(zip(columns, (*medians, over, better, len(pairs)), strict=True))


def list_numbers(lines: Sequence[Row]) -> list[Row]:
    """Latencies that HSDAG's authors published and ours, of the lines of ``08_published.py``."""
    shown = [line for line in lines if line["paper"] == OF_HSDAG and line["unit"] == "ms"]
    table = []
    for (what,), mine in group_by(shown, "what").items():
        row: Row = {"ms": what}
        for line in mine:
            row |= {f"{line['model']}, published": line["published"]}
            row |= {f"{line['model']}, ours": shorten(line["ours"], 4)}
        table.append(row)
    return table


def list_claims(lines: Sequence[Row]) -> list[Row]:
    """What the other papers claim in words, other than latencies, and what is found here."""
    return [
        {
            "paper": line["paper"],
            "claim": line["what"],
            "graphs": line["model"],
            "published": f"{line['published']} {line['unit']}",
            "ours": f"{shorten(line['ours'], 3)} {line['unit']}",
        }
        for line in lines
        if line["paper"] != OF_HSDAG and line["unit"] != "ms"
    ]


def shorten(number: str, digits: int) -> str:
    """A number with so many digits, if there is one."""
    return f"{float(number):.{digits}g}" if number else ""


TABLES: Tables = {
    "evaluations": partial(list_arms, 500, FLOOR),
    "seconds": partial(list_arms, "3 s", QUICK),
    "samples": partial(compare_samples, 500),
}
"""Name -> the table on the page."""
LINES: Tables = {"numbers": list_numbers, "claims": list_claims}
"""The same, of the lines of ``published.csv``."""
