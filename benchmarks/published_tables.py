"""Print the tables of rows of ``published.py``.

    python benchmarks/published_tables.py docs/results/published-rows.jsonl.gz

A score is the best latency known over the latency of a run; differences to an arm are over runs of
the same problem and seed, with bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Row, make_parser, read_rows
from published_problems import PROBLEMS
from summaries import (
    ProblemName,
    Scores,
    Tables,
    average,
    compare_scores,
    find_interval,
    group_by,
    print_tables,
)

FLOOR = "hill-climb"
"""What arms are compared with."""
PAIR = ("placeto, paper", "rnn, paper")
"""Whose evaluations until the same latency are compared."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("rows", type=Path)
    rows = read_rows(parser.parse_args().rows)
    print_tables(TABLES, rows)


def list_arms(role: str, budget: int | str, rows: Sequence[Row]) -> list[Row]:
    """The arms that ran on all problems of a role with a budget, best first."""
    problems = PROBLEMS[role]
    best = find_best(rows)
    here = [
        row
        for row in rows
        if (row["model"], row["devices"]) in problems and row["budget"] == budget
    ]
    runs = {arm: mine for (arm,), mine in group_by(here, "arm").items()}
    scores = {arm: score_runs(mine, best) for arm, mine in runs.items()}
    complete = [arm for arm in runs if {key[:2] for key in scores[arm]} == set(problems)]
    return [
        {
            "arm": arm,
            **compare_scores(scores[arm], scores.get(FLOOR, {}), FLOOR, problems),
            **rate_predictions(runs[arm], best),
            "CPU s": f"{np.mean([row['cpu_s'] for row in runs[arm]]):.1f}",
            "runs": len(runs[arm]),
        }
        for arm in sorted(complete, key=lambda arm: -average(scores[arm], problems))
    ]


def find_best(rows: list[Row]) -> dict[ProblemName, float]:
    """The least latency known of each problem, in ms."""
    best: dict[ProblemName, float] = {}
    for row in rows:
        problem = (row["model"], row["devices"])
        known = row["best_known_ms"] or np.inf
        best[problem] = min(best.get(problem, np.inf), row["ms"], known)
    return best


def score_runs(rows: list[Row], best: dict[ProblemName, float]) -> Scores:
    """Score of each run by model, devices and seed."""
    return {
        (row["model"], row["devices"], row["seed"]): best[row["model"], row["devices"]] / row["ms"]
        for row in rows
    }


def rate_predictions(rows: list[Row], best: dict[ProblemName, float]) -> dict[str, str]:
    """Mean score of the predictions, 0 for infeasible ones, and how many of them were feasible.

    Runs by time make none.
    """
    if any(isinstance(row["budget"], str) for row in rows):
        return {"greedy": "-", "feasible": "-"}
    feasible = sum(row["greedy_ms"] is not None for row in rows)
    each = [best[row["model"], row["devices"]] / (row["greedy_ms"] or np.inf) for row in rows]
    return {"greedy": f"{np.mean(each):.3f}", "feasible": f"{feasible} of {len(rows)}"}


class Pair(NamedTuple):
    """Evaluations of two runs until the worse of their bests, and the difference of these, ms."""

    first: int
    second: int
    behind_ms: float


def compare_samples(role: str, budget: int, rows: Sequence[Row]) -> list[Row]:
    """How many evaluations two arms need to reach the worse of their bests."""
    curves = {
        (row["model"], row["devices"], row["seed"], row["arm"]): row["curve"]
        for row in rows
        if row["budget"] == budget and row["curve"] and row["arm"] in PAIR
    }
    pairs: dict[str, list[Pair]] = {}
    for *run, arm in curves:
        both = [curves.get((*run, one)) for one in PAIR]
        if arm == PAIR[0] and all(both) and tuple(run[:2]) in PROBLEMS[role]:
            name = run[0].removeprefix("family-").partition("-seed")[0]
            pairs.setdefault(name, []).append(count_samples(*both))
    pairs["all"] = [pair for mine in pairs.values() for pair in mine]
    return [{"problem": name, **describe_samples(mine, *PAIR)} for name, mine in pairs.items()]


def count_samples(first: list[Any], second: list[Any]) -> Pair:
    """Compare two curves of evaluations and best latencies."""
    goal = max(first[-1][1], second[-1][1])
    one, other = (
        next(point[0] for point in curve if point[1] <= goal) for curve in (first, second)
    )
    return Pair(one, other, first[-1][1] - second[-1][1])


def describe_samples(pairs: Sequence[Pair], one: str, other: str) -> Row:
    """Medians, the geometric mean of the ratio, and how often the first one's best is better."""
    columns = (one, other, f"{other} over {one} (95 %)", f"{one} better", "runs")
    if len(pairs) < 2:
        return dict(zip(columns, ("-", "-", "-", "-", len(pairs)), strict=True))
    ratio = np.log([pair.second / pair.first for pair in pairs])
    low, high = np.exp(find_interval(ratio))
    medians = (f"{np.median([pair[arm] for pair in pairs]):.0f}" for arm in (0, 1))
    over = f"{np.exp(ratio.mean()):.2f} ({low:.2f}, {high:.2f})"
    better = sum(pair.behind_ms < 0.0 for pair in pairs)
    return dict(zip(columns, (*medians, over, better, len(pairs)), strict=True))


TABLES: Tables = {
    "evaluations": partial(list_arms, "test", 500),
    "seconds": partial(list_arms, "test", "3 s"),
    "samples": partial(compare_samples, "test", 500),
}
"""Name -> the table on the page."""


if __name__ == "__main__":
    main()
