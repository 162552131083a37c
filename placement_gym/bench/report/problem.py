"""One problem in a study's report: its table, who beats a single device, the best placement."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from placement_gym.arrays import FloatArray
from placement_gym.bench.report.document import Block, Heading, Picture, Table, Text
from placement_gym.bench.report.known_latencies import Reference, bench_env_for
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.tables import ratio
from placement_gym.bench.run.rows import Json
from placement_gym.bench.run.verdict import YES
from placement_gym.bench.study.spec import Task
from placement_gym.placement import assignment_of

COLUMNS = (
    "agent",
    "ms",
    "least to most",
    "gap",
    "x best single",
    "faster",
    "failed",
    "greedy ms",
    "evals",
    "wall s",
)


def of_problem(
    found: StudyResults,
    problem: str,
    task: Task,
    published: Mapping[str, Mapping[str, float]],
) -> list[Block]:
    """What was found on one problem: a table, a verdict, and the best placement drawn.

    Args:
        found: All results.
        problem: Which one.
        task: One of its runs.
        published: Label -> model -> latency in ms.
    """
    reference = found.references[problem]
    lines = [agent_line(found, problem, agent) for agent in found.agents]
    for label, values in published.items():
        if found.model(problem) in values:
            latency_ms = values[found.model(problem)]
            lines.append((latency_ms, [f"published: {label}", f"{latency_ms:.4g}"]))
    anchors = {
        "best single device": reference.best_single_ms,
        "proven optimum": reference.optimum_ms,
        "bound below all placements": None if reference.optimum_ms else reference.bound_ms,
    }
    lines += [(ms, [name, f"{ms:.4g}"]) for name, ms in anchors.items() if ms]
    lines.sort(key=lambda line: line[0])
    columns = [*COLUMNS, *(["scored ms"] if found.scored_elsewhere else [])]
    cells = [line + [""] * (len(columns) - len(line)) for _, line in lines]
    return [
        Heading(found.names[problem]),
        Table(columns, cells),
        Text(verdict(found, problem)),
        *drawn(found, problem, task),
    ]


def agent_line(found: StudyResults, problem: str, agent: str) -> tuple[float, list[str]]:
    """The median latency of an agent, inf without any, and its line."""
    rows = found.of(agent, problem)
    latency, scored = known(rows, "latency_ms"), known(rows, "scored_ms")
    failed = f"{len(rows) - len(latency)} of {len(rows)}"
    if not len(latency):
        return np.inf, [agent, *["-"] * 5, failed]
    speedup, noise = (np.median(known(rows, f)) for f in ("speedup_vs_best_single", "noise"))
    median = float(np.median(latency))
    alone = found.references[problem].best_single_ms is not None
    return median, [
        agent,
        f"{median:.4g}",
        f"{latency.min():.4g} to {latency.max():.4g}",
        gap(median, found.references[problem]),
        ratio(float(speedup), float(noise)) if alone else "-",
        f"{wins(rows)} of {len(rows)}",
        failed,
        greedy(rows),
        f"{np.median(known(rows, 'evaluations')):.0f}",
        f"{np.median(known(rows, 'wall_s')):.2f}",
        *([f"{np.median(scored):.4g}"] if len(scored) else []),
    ]


def known(rows: list[Json], field: str) -> FloatArray:
    """The values that rows have."""
    return np.array([row[field] for row in rows if row[field] is not None], dtype=np.float64)


def gap(latency_ms: float, reference: Reference) -> str:
    """What a latency exceeds the optimum by, or at most exceeds it by where a bound is known."""
    least = reference.optimum_ms or reference.bound_ms
    if not least:
        return "-"
    sign = "" if reference.optimum_ms else "≤ "
    return f"{sign}{100 * max(latency_ms / least - 1, 0.0):.1f} %"


def greedy(rows: list[Json]) -> str:
    """The median of feasible predictions, and how many are not."""
    latency = known(rows, "greedy_latency_ms")
    if not len(latency):
        return "infeasible"
    missing = len(known(rows, "latency_ms")) - len(latency)
    return f"{np.median(latency):.4g}" + (f" ({missing} infeasible)" if missing else "")


def wins(rows: list[Json]) -> int:
    """Runs whose finalist beats the best single device by more than the noise."""
    return sum(row["beats_best_single"] == YES for row in rows)


def verdict(found: StudyResults, problem: str) -> str:
    """Whether splitting is worth it."""
    if found.references[problem].best_single_ms is None:
        return "No single device is known to hold the model."
    runs = {agent: found.of(agent, problem) for agent in found.agents}
    if not any(map(wins, runs.values())):
        return "No split beats the best single device."
    often = [agent for agent, rows in runs.items() if 2 * wins(rows) > len(rows)]
    if not often:
        return "No agent beats the best single device in most of its runs."
    return f"Faster than the best single device in most of their runs: {'; '.join(often)}."


def drawn(found: StudyResults, problem: str, task: Task) -> list[Block]:
    """The fastest placement that any run found, on the graph; a note where it cannot be made."""
    from placement_gym.plots.placement import draw_placement

    rows = [row for row in found.rows if row["problem"] == problem and row["latency_ms"]]
    if not rows:
        return []
    best = min(rows, key=lambda row: row["latency_ms"])
    bench_env = bench_env_for(task, [best])
    if bench_env is None:
        return [Text("The placement is not drawn: its model is not here, or is another now.")]
    base = bench_env.base
    assignment = assignment_of(best["placement"], base.problem)
    latency = f"{best['latency_ms']:.4g} ms by {best['label']}"
    caption = f"{found.names[problem]}: the fastest placement found, {latency}."
    figure = draw_placement(base.problem, assignment, "")
    return [Picture(figure, f"placement-{found.problems.index(problem)}.png", caption)]
