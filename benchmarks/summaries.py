"""Tables of rows, and means with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from common import Row
from scipy import stats

from placement_gym.base import FloatArray, IntArray

Describe = Callable[[list[Row]], object]
"""Text or number for the rows of a group."""
Columns = Mapping[str, Describe]
"""Header of a column -> its cells."""
Tables = Mapping[str, Callable[[Sequence[Row]], list[Row]]]
"""Name of a table on a page -> its lines, from rows."""
Parts = Sequence[Sequence[float] | FloatArray]
"""The values of each problem's runs."""
Interval = tuple[float, float]
"""Lower and upper end."""
N_RESAMPLES = 2000


def print_table(lines: Iterable[Row]) -> None:
    """Print a table whose columns are the keys of the first line."""
    if rows := [*lines]:
        print(make_table((line.values() for line in rows), *rows[0]))


def make_table(lines: Iterable[Iterable[object]], *header: str, numbers: int = 0) -> str:
    """A table in Markdown; the last ``numbers`` columns are aligned to the right."""
    rule = ["---"] * (len(header) - numbers) + ["---:"] * numbers
    rows = (header, rule, *lines)
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def tabulate(rows: Iterable[Row], keys: Sequence[str], columns: Columns) -> list[Row]:
    """A line for each group of rows with equal values of some keys."""
    return [
        {name: describe(mine) for name, describe in columns.items()}
        for mine in group_by(rows, *keys).values()
    ]


def group_by(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows by their values of some keys; groups and rows stay in order."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def pivot(rows: Iterable[Row], key: str, describe: Describe) -> dict[str, Describe]:
    """A column for each value of a key, which describes the rows with it."""
    return {str(value): only(describe, key, value) for (value,) in group_by(rows, key)}


def only(describe: Describe, key: str, value: object) -> Describe:
    """Describe only the rows with a value of a key, if there are any."""

    def describe_those(rows: list[Row]) -> object:
        mine = [row for row in rows if row[key] == value]
        return describe(mine) if mine else ""

    return describe_those


def first(key: str, form: str = "{}") -> Describe:
    return lambda rows: form.format(rows[0][key])


def number(key: str, form: str, of: Callable[[Any], float] = np.mean) -> Describe:
    """The mean of the values of a key, or another statistic."""
    return lambda rows: format(of([row[key] for row in rows]), form)


def interval(key: str, digits: int = 3) -> Describe:
    """The mean of the values of a key, see ``describe_mean``."""
    return lambda rows: describe_mean([row[key] for row in rows], digits)


def span(values: Sequence[float], form: str) -> str:
    """The lowest and the highest value, or one if they have the same digits."""
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def describe_mean(values: Sequence[float], digits: int = 3) -> str:
    """Mean and half-width of its 95 % interval, by Student's t."""
    n = len(values)
    if n < 2:
        return f"{np.mean(values):.{digits}f}" if n else ""
    half = stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)
    return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"


def compare_arms(rows: Iterable[Row], floor: str, columns: Columns) -> list[Row]:
    """A line for each arm, the best first: its score, and points above the floor's, run by run.

    Rows have the ``score`` of a run of an ``arm`` on a ``problem`` with a ``seed``. The first 95 %
    interval is of these runs; for the second, problems and then their runs are drawn.
    """
    arms = {arm: mine for (arm,), mine in group_by(rows, "arm").items()}
    above, drawn_too = f"above {floor} (95 %)", "over problems too (95 %)"
    floors = {(row["problem"], row["seed"]): row["score"] for row in arms.get(floor, [])}
    lines = []
    for arm in sorted(arms, key=lambda arm: -average(arms[arm])):
        line: Row = {"arm": arm, "score": f"{average(arms[arm]):.3f}", above: "-", drawn_too: "-"}
        scores = {(row["problem"], row["seed"]): row["score"] for row in arms[arm]}
        shared = sorted(scores.keys() & floors.keys())
        if len(shared) > 1 and arm != floor:
            points = 100.0 * np.array([scores[run] - floors[run] for run in shared])
            problems = dict.fromkeys(problem for problem, _ in shared)
            parts = [points[[one == problem for one, _ in shared]] for problem in problems]
            low, high = find_interval(points)
            least, most = find_interval_over_problems(parts)
            line[above] = f"{points.mean():+.1f} ({low:+.1f}, {high:+.1f})"
            line[drawn_too] = f"({least:+.1f}, {most:+.1f})"
        lines.append(line | {name: describe(arms[arm]) for name, describe in columns.items()})
    return lines


def average(rows: Iterable[Row]) -> float:
    """Mean over problems of the means over their runs."""
    groups = group_by(rows, "problem").values()
    return float(np.mean([np.mean([row["score"] for row in mine]) for mine in groups]))


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

    ``others``, of the same problems, are drawn independently and subtracted. ``together`` draws a
    run for all problems at once, such as a training that plays all.
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
    """The mean of each chosen problem's runs, drawn with replacement."""
    lengths = np.array([len(part) for part in parts])
    is_run = np.arange(lengths.max()) < lengths[:, None]
    values = np.zeros(is_run.shape)
    values[is_run] = np.concatenate(parts)
    limits = lengths.min() if together else lengths[chosen][..., None]
    times = 1 if together else len(parts)
    drawn = rng.integers(limits, size=(len(chosen), times, lengths.max()))
    return values[chosen[..., None], drawn].mean(axis=-1, where=is_run[chosen])
