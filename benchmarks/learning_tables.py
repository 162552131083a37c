"""The tables of rows of ``learning.py``, and a picture of their curves.

    python benchmarks/learning_tables.py rows.jsonl learning.png        # draws it

Rows are of one budget, 2,000 placements, and some are of annealing; means are over seeds where
nothing else is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from common import Row, make_parser, read_rows
from matplotlib.ticker import LogLocator, NullLocator
from scipy import stats
from summaries import Tables, describe_mean, group_by

FLOOR = "annealing"
"""From random placements, as all others: what they are compared with."""
STEPS = ("hsdag", "hsdag, single units", "graph-groups")
"""HSDAG's steps, without grouping, and ours."""
MARKS = ("100", "500", "2000")
"""Placements after which agents are compared."""
N_COLOURS = 10
"""After which curves are dashed, as colours come again."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    draw(read_rows(options.rows), options.picture)


def find_best(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """Mean over seeds of the best latency, ms: by agent and problem, then by placements."""
    return {
        key: {n: float(np.mean([row["best_ms"][n] for row in mine])) for n in MARKS}
        for key, mine in group_by(rows, "arm", "problem").items()
    }


def list_distances(rows: Sequence[Row]) -> list[Row]:
    """How far the best of each agent is above annealing's in %, mean over problems.

    Intervals of 95 % are over problems.
    """
    best, lines = find_best(rows), []
    for (agent,), mine in group_by(rows, "arm").items():
        problems = [problem for (problem,) in group_by(mine, "problem")]
        line: Row = {"agent": f"`{agent}`"}
        for n in MARKS:
            above = [measure_distance(best, agent, problem, n) for problem in problems]
            line[f"at {int(n):,}"] = describe_mean(above, digits=1)
        seconds = [row["cpu_s"] for row in mine]
        lines.append(line | {"CPU s": f"{min(seconds):.1f} to {max(seconds):.1f}"})
    return lines


def measure_distance(
    best: dict[tuple[str, str], dict[str, float]], agent: str, problem: str, n: str
) -> float:
    """How far an agent's best is above annealing's, in %."""
    return 100.0 * (best[agent, problem][n] / best[FLOOR, problem][n] - 1.0)


def list_steps(rows: Sequence[Row]) -> list[Row]:
    """The same on each problem for HSDAG's steps, at 500 and at 2,000."""
    best = find_best(rows)
    return [
        {"% above annealing at 500 / 2,000": problem.removesuffix("_inference")}
        | {
            f"`{agent}`": " / ".join(
                f"{round(measure_distance(best, agent, problem, n), 1) + 0.0:.1f}"
                for n in MARKS[1:]
                if (agent, problem) in best
            )
            for agent in STEPS
        }
        for (problem,) in group_by(rows, "problem")
    ]


def list_latencies(rows: Sequence[Row]) -> list[Row]:
    """What each agent reached on each problem, ms."""
    lines = []
    for (problem, agent), mine in group_by(rows, "problem", "arm").items():
        line: Row = {"problem": problem.removesuffix("_inference"), "agent": f"`{agent}`"}
        for n in MARKS:
            best, mean = (np.mean([row[key][n] for row in mine]) for key in ("best_ms", "mean_ms"))
            line[f"best / mean at {int(n):,}"] = f"{best:.4g} / {mean:.4g}"
        line["CPU s"] = f"{np.mean([row['cpu_s'] for row in mine]):.1f}"
        lines.append(line | {"runs": len(mine)})
    return lines


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw a panel for each problem: mean sampled latency over the least that any run found."""
    problems = group_by(rows, "problem")
    figure, panels = plt.subplots(3, 3, figsize=(11, 9), sharex=True, layout="constrained")
    names = [agent for (agent,) in group_by(rows, "arm")]
    for (problem,), panel in zip(problems, panels.flat, strict=False):
        mine = problems[problem,]
        least = min(min(row["best_ms"].values()) for row in mine)
        for number, agent in enumerate(names):
            curves = [dict(row["curve"]) for row in mine if row["arm"] == agent]
            if curves:
                at = sorted(set.intersection(*map(set, curves)))
                mean = [stats.gmean([curve[n] for curve in curves]) / least for n in at]
                dashes = "--" if number >= N_COLOURS else "-"
                panel.plot(at, mean, dashes, color=f"C{number}", label=agent, lw=1.5)
        panel.set_title(f"{problem.removesuffix('_inference')}, {mine[0]['units']} units", size=9)
        panel.set(xscale="log", yscale="log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0)))
        panel.yaxis.set_major_formatter("{x:.3g}")
        panel.yaxis.set_minor_locator(NullLocator())
    for panel in panels[-1]:
        panel.set_xlabel("placements")
    lines = {line.get_label(): line for panel in panels.flat for line in panel.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4)
    figure.supylabel("mean of the last 100 placements / the best of all runs")
    figure.savefig(path, dpi=110)


TABLES: Tables = {
    "distances": list_distances,
    "steps": list_steps,
    "latencies": list_latencies,
}
"""Name -> the table on the page."""


if __name__ == "__main__":
    main()
