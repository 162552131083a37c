"""The tables of ``zero_shot.py``, from its rows.

    python benchmarks/zero_shot_tables.py rows.jsonl

Latencies over HEFT's are geometric means. A score is the least latency in the rows over latency.
Trainings are arms "trained, ..."; their mean comes with a 95 % interval over trainings (t), and
gains over the arm that training began with also with one over problems.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from placement_gym.arrays import FloatArray

CLASSIC = ("hill-climb", "annealing", "multilevel")
START = "follows the plan"
"""The arm that training begins with."""
EQUAL = 0.999999

Row = dict[str, Any]
GROUPS: dict[str, Callable[[Row], bool]] = {
    "all": lambda row: True,
    "held-out families": lambda row: row["held_out"],
    "limits, 3 devices": lambda row: row["limited"] > 0 and row["devices"] >= 3,
    "no limits": lambda row: row["limited"] == 0,
    **{
        name: lambda row, name=name: row["semantics"] == name  # type: ignore[misc]
        for name in ("list", "event", "serial", "throughput")
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    print_tables(list(load_rows(parser.parse_args().rows).values()))


def load_rows(path: Path) -> dict[str, Row]:
    """Rows of earlier runs, compressed or not."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    return {key(row): row for row in map(json.loads, text.splitlines())}


def key(row: Row) -> str:
    return f"{row['problem']} {row['arm']} {row['evaluations']}"


def print_tables(rows: list[Row]) -> None:
    """All tables."""
    print_answers(rows)
    scores = score(rows)
    print_scores(rows, scores)
    print_gains(scores)


def score(rows: list[Row]) -> dict[tuple[str, int], dict[Any, float]]:
    """Scores by arm, evaluations and problem."""
    best: dict[Any, float] = {}
    for row in rows:
        best[row["problem"]] = max(best.get(row["problem"], 0.0), row["speedup"])
    scores: dict[tuple[str, int], dict[Any, float]] = {}
    for row in rows:
        arm = scores.setdefault((row["arm"], row["evaluations"]), {})
        arm[row["problem"]] = row["speedup"] / best[row["problem"]]
    return scores


def print_answers(rows: list[Row]) -> None:
    """Latency over HEFT's of what needs no evaluation, or one."""
    heft_speedup = {row["problem"]: row["speedup"] for row in rows if row["arm"] == "heft"}
    first = [row for row in rows if row["evaluations"] <= 1]
    print("latency over HEFT's, geometric mean (problems); infeasible first placements")
    for arm in dict.fromkeys(row["arm"] for row in first):
        own, shares = [row for row in first if row["arm"] == arm], []
        for name, belongs in GROUPS.items():
            ratios = [
                np.log(heft_speedup[row["problem"]] / row["speedup"]) for row in own if belongs(row)
            ]
            if ratios:
                shares.append(f"{name} {np.exp(np.mean(ratios)):.3f} ({len(ratios)})")
        print(f"{arm:32} {', '.join(shares)}; {int(sum(row['infeasible'] for row in own))}")


def print_scores(rows: list[Row], scores: dict[tuple[str, int], dict[Any, float]]) -> None:
    """Scores at each budget, and how often the best classic search is reached."""
    classic: dict[Any, float] = {}
    for name in CLASSIC:
        for problem, value in scores.get((name, 500), {}).items():
            classic[problem] = max(classic.get(problem, 0.0), value)
    print("score +- standard error over problems; as fast as the best classic search; CPU seconds")
    for arm, evaluations in sorted(scores, key=lambda found: (found[1], found[0])):
        reached = scores[arm, evaluations]
        values = np.array(list(reached.values()))
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        equal = np.mean([reached[p] >= EQUAL * classic[p] for p in reached if p in classic] or [0])
        own = [row for row in rows if (row["arm"], row["evaluations"]) == (arm, evaluations)]
        infeasible = np.mean([row["infeasible"] for row in own])
        seconds = np.mean([row["seconds"] for row in own if "seconds" in row] or [np.nan])
        print(
            f"{arm:32} {evaluations:4} {values.mean():.4f} +- {error:.4f} reached {equal:.3f} "
            f"infeasible {infeasible:.4f} {seconds:.2f} s ({len(values)})"
        )


def print_gains(scores: dict[tuple[str, int], dict[Any, float]]) -> None:
    """Means over trainings, and gains over untrained arms with 95 % intervals."""
    trainings: dict[tuple[str, int], list[dict[Any, float]]] = {}
    for (arm, evaluations), reached in scores.items():
        if arm.startswith("trained, ") and "of the package" not in arm:
            suffix = arm.partition(", ")[2].partition(", ")[2]
            trainings.setdefault((suffix, evaluations), []).append(reached)
    print("mean of trainings, 95 % interval over trainings; gains, 95 % intervals over problems")
    for (suffix, evaluations), runs in sorted(trainings.items()):
        problems = sorted(set.intersection(*map(set, runs)), key=str)
        table = np.array([[one[p] for p in problems] for one in runs])
        mean, half = interval(table.mean(axis=1))
        line = (
            f"{suffix or '-':16} {evaluations:4} {len(reached)} trainings {mean:.4f} +- {half:.4f}"
        )
        for start in (START, "prefers nothing"):
            arm = f"{start}, {suffix}" if suffix else start
            if (arm, evaluations) in scores:
                before = scores[arm, evaluations]
                gain, half = interval(table.mean(axis=0) - [before[p] for p in problems])
                line += f"; over '{start}' {gain:+.4f} +- {half:.4f}"
        print(line)


def interval(values: FloatArray) -> tuple[float, float]:
    """Mean, and half of its 95 % interval."""
    n = len(values)
    if n < 2:
        return float(values.mean()), float("nan")
    return float(values.mean()), float(student.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))


if __name__ == "__main__":
    main()
