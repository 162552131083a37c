"""Tables of ``published.py``: scores of arms, and their differences with intervals."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from scipy.stats import bootstrap

from placement_gym.arrays import FloatArray

Row = dict[str, Any]
Problem = tuple[str, str]
N_RESAMPLES = 2000
TWIN = "hsdag-paper"
"""Devices of the example."""


def read_rows(path: Path) -> list[Row]:
    """The rows so far, also of a compressed file."""
    if not path.exists():
        return []
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return [read_row(line) for line in text.splitlines()]


def read_row(line: str | bytes) -> Row:
    """A row of ``published.py``, or of the example, whose latencies are over the reference's."""
    row: Row = json.loads(line)
    if "arm" not in row:
        curve = [(n, 1.0 / speedup) for n, _, speedup in row["curve"]]
        row |= {"arm": row["label"], "devices": TWIN, "curve": curve}
    return row


def print_tables(rows: list[Row], problems: Sequence[Problem], options: argparse.Namespace) -> None:
    """Print the arms that ran on all problems with this budget, best first."""
    best = find_best(rows)
    mine = [
        row
        for row in rows
        if (row["model"], row["devices"]) in problems and row["budget"] == options.budget
    ]
    arms = {label: [row for row in mine if row["arm"] == label] for label in find_arms(mine)}
    if options.arms:
        arms = {label: arms[label] for label in options.arms.split(";") if label in arms}
    scores = {label: score_runs(some, best) for label, some in arms.items()}
    full = [label for label in scores if {key[:2] for key in scores[label]} == set(problems)]
    versus = f"above {options.against} (95 %)"
    columns = ("arm", "score", versus, "problems drawn, too", "greedy", "feasible", "CPU s", "runs")
    table = Table(*columns, *map(name_column, problems), box=MARKDOWN)
    for label in sorted(full, key=lambda one: -average(scores[one], problems)):
        each = [average(scores[label], [problem]) for problem in problems]
        table.add_row(
            label,
            f"{np.mean(each):.3f}",
            *compare(scores[label], scores.get(options.against, {})),
            *rate_predictions(arms[label], best),
            f"{np.mean([row['cpu_s'] for row in arms[label]]):.1f}",
            str(len(arms[label])),
            *(f"{one:.3f}" for one in each),
        )
    Console(width=400).print(table)


def name_column(problem: Problem) -> str:
    """A short name, with the devices where they are not those of the problem's seed."""
    model, devices = problem
    name = Path(model).name.removeprefix("family-").removesuffix("_inference")
    return name if devices.startswith("drawn") else f"{name} {devices}"


def print_samples(
    rows: list[Row], problems: Sequence[Problem], options: argparse.Namespace
) -> None:
    """Print how many evaluations two arms need to reach the worse of their bests."""
    first, second = options.arms.split(";")
    runs = {
        (row["arm"], row["model"], row["devices"], row["seed"]): row["curve"]
        for row in rows
        if row["budget"] == options.budget and row["curve"]
    }
    columns = (first, second, f"{second} over {first} (95 %)", f"{first} better", "runs")
    table = Table("problem", *columns, box=MARKDOWN)
    pairs: list[Pair] = []
    for name, devices in problems:
        mine = [
            count_samples(runs[first, name, devices, seed], runs[second, name, devices, seed])
            for seed in range(options.seeds)
            if {(first, name, devices, seed), (second, name, devices, seed)} <= set(runs)
        ]
        pairs += mine
        table.add_row(Path(name).name, *describe_samples(mine))
    table.add_row("all", *describe_samples(pairs))
    Console(width=170).print(table)


class Pair(NamedTuple):
    """Evaluations of two runs until the worse of their bests, and the difference of these, ms."""

    first: int
    second: int
    behind_ms: float


def count_samples(first: list[Any], second: list[Any]) -> Pair:
    """Compare two curves of evaluations and best latencies."""
    goal = max(first[-1][1], second[-1][1])
    one, other = (
        next(point[0] for point in curve if point[1] <= goal) for curve in (first, second)
    )
    return Pair(one, other, first[-1][1] - second[-1][1])


def describe_samples(pairs: Sequence[Pair]) -> list[str]:
    """Medians, the geometric mean of the ratio, and how often the first one's best is better."""
    if len(pairs) < 2:
        return ["-"] * 4 + [str(len(pairs))]
    ratio = np.log([pair.second / pair.first for pair in pairs])
    low, high = np.exp(find_interval(ratio))
    return [
        f"{np.median([pair.first for pair in pairs]):.0f}",
        f"{np.median([pair.second for pair in pairs]):.0f}",
        f"{np.exp(ratio.mean()):.2f} ({low:.2f}, {high:.2f})",
        str(sum(pair.behind_ms < 0.0 for pair in pairs)),
        str(len(pairs)),
    ]


def find_arms(rows: list[Row]) -> list[str]:
    """Labels in the order of their first rows."""
    return list(dict.fromkeys(row["arm"] for row in rows))


def find_best(rows: list[Row]) -> dict[Problem, float]:
    """The least latency known of each problem, in ms."""
    best: dict[Problem, float] = {}
    for row in rows:
        problem = (row["model"], row["devices"])
        known = row["best_known_ms"] or np.inf
        best[problem] = min(best.get(problem, np.inf), row["ms"], known)
    return best


def score_runs(rows: list[Row], best: dict[Problem, float]) -> dict[tuple[str, str, int], float]:
    """Score of each run by model, devices and seed."""
    return {
        (row["model"], row["devices"], row["seed"]): best[row["model"], row["devices"]] / row["ms"]
        for row in rows
    }


def greedy_score(row: Row, best: dict[Problem, float]) -> float:
    """Score of the prediction; 0 if it is infeasible."""
    return best[row["model"], row["devices"]] / (row["greedy_ms"] or np.inf)


def average(scores: dict[tuple[str, str, int], float], problems: Sequence[Problem]) -> float:
    """Mean over problems of the means over their seeds."""
    each = [[value for key, value in scores.items() if key[:2] == one] for one in problems]
    return float(np.mean([np.mean(part) for part in each]))


def rate_predictions(rows: list[Row], best: dict[Problem, float]) -> tuple[str, str]:
    """Mean score of the predictions, and how many of them were feasible; runs by time make none."""
    if any(isinstance(row["budget"], str) for row in rows):
        return "-", "-"
    feasible = sum(row["greedy_ms"] is not None for row in rows)
    mean = np.mean([greedy_score(row, best) for row in rows])
    return f"{mean:.3f}", f"{feasible} of {len(rows)}"


def compare(
    scores: dict[tuple[str, str, int], float], others: dict[tuple[str, str, int], float]
) -> tuple[str, str]:
    """Mean difference in points over runs of the same problem and seed, and two intervals.

    The first is of these runs; for the second problems are drawn, too, and then their runs.
    """
    shared = sorted(set(scores) & set(others))
    if len(shared) < 2 or scores is others:
        return "-", "-"
    difference = 100.0 * np.array([scores[key] - others[key] for key in shared])
    problems = sorted({key[:2] for key in shared})
    parts = [difference[[key[:2] == one for key in shared]] for one in problems]
    low, high = find_interval(difference)
    least, most = find_interval_over_problems(parts)
    return f"{difference.mean():+.1f} ({low:+.1f}, {high:+.1f})", f"({least:+.1f}, {most:+.1f})"


def find_interval(values: FloatArray) -> tuple[float, float]:
    """A 95 % interval of the mean, by bootstrap."""
    if np.ptp(values) == 0.0:
        return float(values[0]), float(values[0])
    drawn = bootstrap((values,), np.mean, method="percentile", n_resamples=N_RESAMPLES, rng=0)
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


def find_interval_over_problems(parts: list[FloatArray]) -> tuple[float, float]:
    """A 95 % interval of the mean over problems, by bootstrap of problems and of their runs."""
    rng = np.random.default_rng(0)
    means = [
        np.mean([rng.choice(parts[i], len(parts[i])).mean() for i in chosen])
        for chosen in rng.integers(len(parts), size=(N_RESAMPLES, len(parts)))
    ]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
