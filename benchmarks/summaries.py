"""Tables of rows, means and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from common import Row
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table
from scipy import stats

from placement_gym.base import FloatArray, IntArray

ProblemName = tuple[str, str]
"""Model and devices."""
Describe = Callable[[list[Row]], object]
"""Text or number for the rows of a group."""
Tables = Mapping[str, Callable[[Sequence[Row]], list[Row]]]
"""Name -> a table of rows, as its lines."""
Scores = dict[tuple[str, str, int], float]
"""Score of each run by problem, two strings, and seed."""
Parts = Sequence[Sequence[float] | FloatArray]
"""The values of each problem's runs."""
Interval = tuple[float, float]
"""Its lower and its upper end."""
N_RESAMPLES = 2000


def print_table(lines: Iterable[Row], title: str = "") -> None:
    """Print a table in Markdown, whose columns are the keys of the first line."""
    table = Table(title=title, box=MARKDOWN)
    for number, line in enumerate(lines):
        for name in () if number else line:
            table.add_column(name)
        table.add_row(*map(str, line.values()))
    Console(width=400).print(table)


def describe_groups(
    rows: Iterable[Row], keys: Sequence[str], columns: Mapping[str, Describe]
) -> list[Row]:
    """A line for each group of rows with equal values of some keys: these, and columns."""
    return [
        dict(zip(keys, values, strict=True))
        | {name: describe(mine) for name, describe in columns.items()}
        for values, mine in group_by(rows, *keys).items()
    ]


def group_by(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their values of some keys, in the order in which these are first met."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def columns_of(rows: Iterable[Row], key: str, describe: Describe) -> dict[str, Describe]:
    """A column for each value of a key: what ``describe`` says of the rows that have it, if any."""

    def describe_those(value: object, group: list[Row]) -> object:
        mine = [row for row in group if row[key] == value]
        return describe(mine) if mine else ""

    return {str(value): partial(describe_those, value) for (value,) in group_by(rows, key)}


def describe_mean(values: Sequence[float], digits: int = 3) -> str:
    """Mean and half-width of its 95 % interval, by Student's t."""
    n = len(values)
    if n < 2:
        return f"{np.mean(values):.{digits}f}" if n else ""
    half = stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)
    return f"{np.mean(values):.{digits}f} +- {half:.{digits}f}"


def compare_scores(
    scores: Scores, others: Scores, of: str, problems: Sequence[ProblemName]
) -> dict[str, str]:
    """Cells of mean score, and of differences in points to runs of the same problem and seed.

    Of the two intervals of 95 % the first is of these runs; for the second problems are drawn, too,
    and then their runs.
    """
    cells = {"score": f"{average(scores, problems):.3f}", f"above {of} (95 %)": "-"}
    cells["problems drawn, too"] = "-"
    shared = sorted(set(scores) & set(others))
    if len(shared) > 1 and scores is not others:
        points = 100.0 * np.array([scores[key] - others[key] for key in shared])
        parts = [points[[k[:2] == one for k in shared]] for one in sorted({k[:2] for k in shared})]
        low, high = find_interval(points)
        least, most = find_interval_over_problems(parts)
        cells[f"above {of} (95 %)"] = f"{points.mean():+.1f} ({low:+.1f}, {high:+.1f})"
        cells["problems drawn, too"] = f"({least:+.1f}, {most:+.1f})"
    return cells


def average(scores: Scores, problems: Sequence[ProblemName]) -> float:
    """Mean over problems of the means over their seeds."""
    each = [[value for key, value in scores.items() if key[:2] == one] for one in problems]
    return float(np.mean([np.mean(part) for part in each]))


def find_interval(values: FloatArray) -> Interval:
    """A 95 % interval of the mean, by bootstrap."""
    if np.ptp(values) == 0.0:
        return float(values[0]), float(values[0])
    drawn = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=N_RESAMPLES, rng=0)
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


def find_interval_over_problems(
    parts: Parts, others: Parts | None = None, together: bool = False
) -> Interval:
    """A 95 % interval of the mean over problems, by bootstrap of problems and of their runs.

    Args:
        parts: What the mean is of.
        others: Of the same problems, drawn from independently, and taken off.
        together: Whether a run is drawn for all problems at once, as one training that plays all.
    """
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(parts), size=(N_RESAMPLES, len(parts)))
    means = draw_means(parts, chosen, together, rng)
    if others is not None:
        means -= draw_means(others, chosen, together, rng)
    low, high = np.quantile(means.mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def draw_means(
    parts: Parts, chosen: IntArray, together: bool, rng: np.random.Generator
) -> FloatArray:
    """The mean of as many runs as a problem has, drawn with replacement, for each chosen one."""
    lengths = np.array([len(part) for part in parts])
    is_run = np.arange(lengths.max()) < lengths[:, None]
    values = np.zeros(is_run.shape)
    values[is_run] = np.concatenate(parts)
    limits = lengths.min() if together else lengths[chosen][..., None]
    times = 1 if together else len(parts)
    drawn = rng.integers(limits, size=(len(chosen), times, lengths.max()))
    return values[chosen[..., None], drawn].mean(axis=-1, where=is_run[chosen])
