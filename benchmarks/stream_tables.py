"""The tables of rows of ``stream.py``.

A score is the best latency of all arms over an arm's, 0 where it has no answer, with half of the
95 % interval of its mean over problems. Speed-ups over HEFT have no such bound: their means are
geometric. Rows of several files are joined by problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from common import Row
from scipy import stats
from summaries import (
    Describe,
    Tables,
    columns_of,
    describe_groups,
    describe_mean,
    group_by,
)

from placement_gym.graph.families.stream import UNSEEN

TIMES_MS = (1, 3, 10, 30, 100, 300, 1000)
"""When the best answer of an arm is looked at."""
SEARCH, BLIND = "search", "search without learned starts"
WRONG = "list-policy, one, other statistics"
"""Arm that shows what statistics are worth, and is no way to place a graph."""
LATENCY, SECONDS = 1, 2
"""Columns of an answer, after its label."""


def score_times(rows: Sequence[Row]) -> list[Row]:
    """The score of each arm on each problem after each of ``TIMES_MS``."""
    return [
        {
            "problem": row["problem"],
            "arm": arm,
            "after": f"{time_ms} ms",
            "score": best_ms / reached_ms(answers, time_ms),
        }
        for row, best_ms in find_best(rows)
        for arm, answers in row["arms"].items()
        for time_ms in TIMES_MS
    ]


def list_times(rows: Sequence[Row]) -> list[Row]:
    """Mean score of each arm after some CPU time."""
    runs = score_times(rows)
    columns = columns_of(runs, "after", partial(describe, "score"))
    return describe_groups([run for run in runs if run["arm"] != WRONG], ["arm"], columns)


def list_gains(rows: Sequence[Row]) -> list[Row]:
    """What learned starts add to the score of a search."""
    by_arm = group_by(score_times(rows), "arm")
    pairs = zip(by_arm[SEARCH,], by_arm[BLIND,], strict=True)
    gains = [one | {"gain": one["score"] - other["score"]} for one, other in pairs]
    return describe_groups(gains, ["after"], {"gain": partial(describe, "gain")})


def reached_ms(answers: Sequence[Sequence[Any]], time_ms: float) -> float:
    """The best latency of the answers that came in so many milliseconds, infinite if none did."""
    return min(
        (answer[LATENCY] for answer in answers if answer[SECONDS] <= time_ms / 1e3), default=np.inf
    )


def find_best(rows: Sequence[Row]) -> Iterator[tuple[Row, float]]:
    """Yield a row with all arms of each problem, and the best latency of these."""
    for mine in group_by(rows, "problem").values():
        arms = {name: answers for row in mine for name, answers in row["arms"].items()}
        joined = mine[0] | {"arms": arms}
        yield joined, find_best_ms(joined)


def find_best_ms(row: Row) -> float:
    """The best latency of all answers of all arms."""
    return float(min(answer[LATENCY] for answers in row["arms"].values() for answer in answers))


def score_answers(rows: Sequence[Row]) -> list[Row]:
    """The score of each answer of each arm but searches on each problem."""
    return [
        row
        | {
            "arm": arm,
            "answers": label,
            "score": best_ms / ms,
            "of_heft": row["arms"]["HEFT"][0][LATENCY] / ms,
            "cpu_s": cpu_s,
        }
        for row, best_ms in find_best(rows)
        for arm, answers in row["arms"].items()
        for label, ms, cpu_s in answers
        if not label.endswith("ms")
    ]


def list_answers(rows: Sequence[Row]) -> list[Row]:
    """Score and speed of each answer of each arm but searches, in all and on some problems."""
    columns: dict[str, Describe] = {
        "score": partial(describe, "score"),
        "x HEFT": describe_speedup,
        "other families": lambda mine: describe_speedup(
            [run for run in mine if run["family"] in UNSEEN]
        ),
        "limited": lambda mine: describe("score", [run for run in mine if run["limited"]]),
        "CPU ms": lambda mine: f"{1e3 * np.mean([run['cpu_s'] for run in mine]):.1f}",
    }
    return describe_groups(score_answers(rows), ["arm", "answers"], columns)


def list_trainings(rows: Sequence[Row]) -> list[Row]:
    """As ``list_answers``, of trainings: means over their seeds, which end the names of arms."""
    runs = [run | split_seed(run["arm"]) for run in score_answers(rows)]
    columns: dict[str, Describe] = {
        "seeds": lambda mine: len(group_by(mine, "seed")),
        "score": partial(describe_of_problems, "score"),
        "x HEFT, each seed": lambda mine: ", ".join(
            f"{stats.gmean([run['of_heft'] for run in of_seed]):.3f}"
            for of_seed in group_by(mine, "seed").values()
        ),
        "x HEFT": lambda mine: f"{stats.gmean([run['of_heft'] for run in mine]):.3f}",
    }
    return describe_groups(runs, ["arm", "answers"], columns)


def split_seed(arm: str) -> Row:
    """The arm and the seed of its training, 0 of one that is not trained."""
    name, _, seed = arm.rpartition("-")
    return {"arm": name, "seed": seed} if seed.isdigit() else {"arm": arm, "seed": "0"}


def describe_of_problems(key: str, runs: Sequence[Row]) -> str:
    """As ``describe``, of the means of each problem."""
    problems = group_by(runs, "problem").values()
    return describe_mean([float(np.mean([run[key] for run in mine])) for mine in problems])


def list_published(rows: Sequence[Row]) -> list[Row]:
    """Mean score of each arm by the number of schedules."""
    runs: list[Row] = []
    for mine in group_by(rows, "model", "devices").values():
        best_ms = min(map(find_best_ms, mine))
        runs += [
            {"arm": arm, "schedules": label, "score": best_ms / ms}
            for row in mine
            for arm, answers in row["arms"].items()
            for label, ms, _ in answers
        ]
    columns = columns_of(runs, "schedules", partial(describe, "score"))
    return describe_groups(runs, ["arm"], columns)


def describe(key: str, runs: Sequence[Row]) -> str:
    return describe_mean([run[key] for run in runs])


def describe_speedup(runs: Sequence[Row]) -> str:
    """The geometric mean of latencies of HEFT over those of runs, with its interval's factor."""
    ratios = [run["of_heft"] for run in runs]
    if min(ratios) == 0.0:
        return "-"
    logs = np.log(ratios)
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    return f"{np.exp(logs.mean()):.3f} x/ {np.exp(half):.3f}"


TABLES: Tables = {
    "times": list_times,
    "gains": list_gains,
    "answers": list_answers,
    "trainings": list_trainings,
    "published": list_published,
}
