"""Print the tables of rows of ``stream.py``.

    python benchmarks/stream_tables.py docs/results/stream-rows.jsonl.gz
    python benchmarks/stream_tables.py docs/results/stream-trained-rows.jsonl.gz
    python benchmarks/stream_tables.py docs/results/stream-published-rows.jsonl.gz

A score is the best latency of all arms over an arm's, 0 where it has no answer, with half of the
95 % interval of its mean over problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Describe,
    Row,
    columns_of,
    describe_mean,
    group_by,
    make_parser,
    print_groups,
    read_rows,
)
from scipy import stats

from placement_gym.graph.families.stream import UNSEEN

TIMES_MS = (1, 3, 10, 30, 100, 300, 1000)
"""When the best answer of an arm is looked at."""
SEARCH, BLIND = "search", "search without learned starts"
LATENCY, SECONDS = 1, 2
"""Columns of an answer, after its label."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("rows", type=Path, help="rows of stream.py")
    rows = read_rows(parser.parse_args().rows)
    if "model" in rows[0]:
        print_published(rows)
        return
    if SEARCH in rows[0]["arms"]:
        print_times(rows)
    print_answers(rows)


def print_times(rows: Sequence[Row]) -> None:
    """Print the score of each arm after some CPU time, and what learned starts add to a search."""
    runs = [
        {
            "problem": row["problem"],
            "arm": arm,
            "after": f"{time_ms} ms",
            "score": find_best_ms(row) / reached_ms(answers, time_ms),
        }
        for row in rows
        for arm, answers in row["arms"].items()
        for time_ms in TIMES_MS
    ]
    print_groups(runs, ["arm"], columns_of(runs, "after", partial(describe, "score")))
    by_arm = group_by(runs, "arm")
    pairs = zip(by_arm[SEARCH,], by_arm[BLIND,], strict=True)
    gains = [one | {"gain": one["score"] - other["score"]} for one, other in pairs]
    print_groups(gains, ["after"], {"gain": partial(describe, "gain")}, "by learned starts")


def reached_ms(answers: Sequence[Sequence[Any]], time_ms: float) -> float:
    """The best latency of the answers that came in so many milliseconds, infinite if none did."""
    return min(
        (answer[LATENCY] for answer in answers if answer[SECONDS] <= time_ms / 1e3), default=np.inf
    )


def find_best_ms(row: Row) -> float:
    """The best latency of all answers of all arms."""
    return float(min(answer[LATENCY] for answers in row["arms"].values() for answer in answers))


def print_answers(rows: Sequence[Row]) -> None:
    """Print the score of each answer of each arm, in all and on problems of some kinds."""
    runs = [
        row
        | {
            "arm": f"{arm}, {label}",
            "score": find_best_ms(row) / ms,
            "of_heft": row["arms"]["HEFT"][0][LATENCY] / ms,
            "cpu_s": cpu_s,
        }
        for row in rows
        for arm, answers in row["arms"].items()
        for label, ms, cpu_s in answers
    ]
    columns: dict[str, Describe] = {
        "problems": len,
        "score": partial(describe, "score"),
        "x HEFT": partial(describe, "of_heft"),
        "geometric": describe_geometric,
        "other families": lambda mine: describe(
            "of_heft", [run for run in mine if run["family"] in UNSEEN]
        ),
        "limited": lambda mine: describe("score", [run for run in mine if run["limited"]]),
        "CPU ms": lambda mine: f"{1e3 * np.mean([run['cpu_s'] for run in mine]):.1f}",
    }
    print_groups(runs, ["arm"], columns)


def print_published(rows: Sequence[Row]) -> None:
    """Print the mean score of each arm by the number of schedules."""
    runs: list[Row] = []
    for mine in group_by(rows, "model", "devices").values():
        best_ms = min(map(find_best_ms, mine))
        runs += [
            {"arm": arm, "schedules": label, "score": best_ms / ms}
            for row in mine
            for arm, answers in row["arms"].items()
            for label, ms, _ in answers
        ]
    print_groups(runs, ["arm"], columns_of(runs, "schedules", partial(describe, "score")))


def describe(key: str, runs: Sequence[Row]) -> str:
    return describe_mean([run[key] for run in runs])


def describe_geometric(runs: Sequence[Row]) -> str:
    """The geometric mean of latencies of HEFT over those of runs, with its interval's factor."""
    ratios = [run["of_heft"] for run in runs]
    if min(ratios) == 0.0:
        return "-"
    logs = np.log(ratios)
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    return f"{np.exp(logs.mean()):.3f} x/ {np.exp(half):.3f}"


if __name__ == "__main__":
    main()
