"""Placing graphs that no policy has seen, within milliseconds of processor time.

    python benchmarks/stream.py arms --rows rows.jsonl
    python benchmarks/stream.py rules --rows rules.jsonl

All arms of ``stream_arms.py`` place the test problems of ``DevicePlacementStream-v0``; ``rules``
are list schedules without weights. A score is the best latency of all arms over an arm's, 0 without
an answer; ± is half of the 95 % interval of its mean over problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np
from common import Row, combine, run_benchmark
from stream_arms import TIMES_MS, WRONG, Arm, list_arms, list_rules
from summaries import Tables, first, group_by, interval, pivot, tabulate

from placement_gym.envs import StreamEnv

PROBLEMS = 1000
WARM = 3
"""Problems that are placed untimed, which loads compiled code."""
ListArms = Callable[[StreamEnv], Mapping[str, Arm]]


def list_jobs() -> Iterator[Row]:
    return combine(problem=StreamEnv("test", PROBLEMS).seeds)


def place(make_arms: ListArms, problem: int) -> Row:
    return place_all(*prepare(make_arms), problem)


@cache
def prepare(make_arms: ListArms) -> tuple[StreamEnv, Mapping[str, Arm]]:
    """Make the problems and the arms, and load compiled code."""
    env, train = StreamEnv("test", PROBLEMS), StreamEnv("train", WARM)
    arms = make_arms(env)
    for seed in train.seeds:
        place_all(train, arms, seed)
    return env, arms


def place_all(env: StreamEnv, arms: Mapping[str, Arm], problem: int) -> Row:
    found = env.find_problem(problem)
    return {
        "family": found.sampled.family,
        "units": found.problem.n_units,
        "limited": found.problem.limited,
        "schedule": found.simulator.semantics.schedule,
        "arms": {name: arm(found, problem) for name, arm in arms.items()},
    }


def score_times(rows: Sequence[Row]) -> list[Row]:
    """The score of each arm on each problem after each of ``TIMES_MS``."""
    answers = [
        {"problem": row["problem"], "arm": arm, "ms": ms, "cpu_s": cpu_s}
        for row in rows
        for arm, given in row["arms"].items()
        for _, ms, cpu_s in given
    ]
    best_ms = {problem: min(answer["ms"] for answer in mine)
               for (problem,), mine in group_by(answers, "problem").items()}  # fmt: skip

    def score(problem: int, within_s: float, mine: Sequence[Row]) -> float:
        known = [answer["ms"] for answer in mine if answer["cpu_s"] <= within_s]
        return float(best_ms[problem] / min(known, default=np.inf))

    return [
        {
            "problem": problem,
            "arm": arm,
            "after": f"{time_ms} ms",
            "score": score(problem, time_ms / 1e3, mine),
        }
        for (problem, arm), mine in group_by(answers, "problem", "arm").items()
        for time_ms in TIMES_MS
    ]


def list_times(rows: Sequence[Row]) -> list[Row]:
    """Mean score of each arm after some CPU time."""
    runs = [run for run in score_times(rows) if run["arm"] != WRONG]
    return tabulate(runs, ["arm"], {"arm": first("arm"), **pivot(runs, "after", interval("score"))})


TABLES: Tables = {"times": list_times}


if __name__ == "__main__":
    run_benchmark(__doc__, {"arms": (list_jobs, partial(place, list_arms)),
                            "rules": (list_jobs, partial(place, list_rules))})  # fmt: skip
