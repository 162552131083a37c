"""Claims about studies beyond their reports: Placeto's transfer, and the two updates of Post.

    python benchmarks/study_claims.py

Reads the rows of the studies transfer, paper and memory-limited from folders of these names, where
``placement-gym bench run NAME --out results/NAME`` has put them.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import gmean

from placement_gym.bench.report.drift import correct_drift
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.run.rows import Json, load_runs
from placement_gym.bench.study.spec import Study

HALVES = ("post, CE only", "post, PPO only")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        help="folder that contains the studies' folders (%(default)s)",
    )
    folder = parser.parse_args().results
    console = Console(width=120)
    console.print(compare_transfer(load_results(folder, "transfer")))
    console.print(
        compare_halves([load_results(folder, name) for name in ("paper", "memory-limited")])
    )


def load_results(folder: Path, name: str) -> StudyResults:
    """Load the results of a study, with its labels of agents.

    Raises:
        SystemExit: The folder has no results.
    """
    study = Study.load(name)
    rows = correct_drift(load_runs(folder / name))
    if not rows:
        raise SystemExit(f"{folder / name} has no results: run the study first")
    return StudyResults([row | {"label": study.label(row)} for row in rows])


def compare_transfer(found: StudyResults) -> Table:
    """Zero-shot Placeto against random blocks, for each training."""
    table = Table("seed", "geometric mean of the gain", "graphs on which it is faster")
    gains = found.scores("placeto, zero-shot") / found.scores("random-blocks")
    for seed, row in zip(found.seeds, gains, strict=True):
        table.add_row(str(seed), f"{gmean(row):.3f}", f"{(row > 1).sum()} of {row.size}")
    table.add_row("all", f"{gmean(gains, axis=None):.3f}", f"{(gains > 1).sum()} of {gains.size}")
    return table


def compare_halves(studies: list[StudyResults]) -> Table:
    """When Post reaches what each of its halves finds within the budget."""
    table = Table("", "evaluations to its own best", "joint reaches that best after", "on problems")
    problems = [(found, problem) for found in studies for problem in found.problems]
    for agent in ("post", *HALVES):
        own = [
            last_gain(row)
            for found, problem in problems
            for row in successful_runs(found, agent, problem)
        ]
        reached = np.array(
            [median_evaluations_to_reach(found, problem, agent) for found, problem in problems]
        )
        within = reached[np.isfinite(reached)]
        table.add_row(
            agent,
            f"{np.median(own):.0f}",
            "-" if agent == "post" else f"{np.median(within):.0f}",
            "-" if agent == "post" else f"{len(within)} of {len(reached)}",
        )
    return table


def successful_runs(found: StudyResults, agent: str, problem: str) -> list[Json]:
    """Runs that found a feasible placement."""
    return [row for row in found.of(agent, problem) if row["latency_ms"]]


def last_gain(row: Json) -> int:
    """The evaluation at which a run found its best placement."""
    evaluations: int = row["curve"][-1][0]
    return evaluations


def median_evaluations_to_reach(found: StudyResults, problem: str, half: str) -> float:
    """Median evaluations after which a joint run reaches the best of a variant; inf if never."""
    pairs = product(successful_runs(found, "post", problem), successful_runs(found, half, problem))
    return float(
        np.median([first_evaluation_at(joint, other["curve"][-1][2]) for joint, other in pairs])
    )


def first_evaluation_at(row: Json, speedup: float) -> float:
    """The first evaluation at which a run reached a speed-up; inf if never."""
    return next((point[0] for point in row["curve"] if point[2] >= speedup), np.inf)


if __name__ == "__main__":
    main()
