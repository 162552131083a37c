"""The report of a study: who places best, how sure that is, and what it looks like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from placement_gym.bench import results
from placement_gym.bench.blocks import Block, Heading, Picture, Table, Text, write
from placement_gym.bench.stats import (
    Estimate,
    FloatArray,
    interquartile_mean,
    probability_of_improvement,
    with_interval,
)
from placement_gym.bench.study import Study
from placement_gym.bench.study_plots import draw_curves, draw_intervals, draw_profiles
from placement_gym.bench.study_results import StudyResults, references_of
from placement_gym.bench.worker import arena_of

FLOORS = ("random-blocks", "annealing")
LEGEND = (
    "A score is the least latency over the run's: the proven optimum, or else the least that any "
    "run found, so 1 is the best there is. IQM is the mean of the middle half of all runs, with "
    "its 95 % interval by stratified bootstrap. Greedy: what the agent predicts after learning. "
    "Better than the floor: how often a run beats one of random blocks or of annealing, "
    "whichever has the higher IQM. Failed runs have no score and are counted apart."
)


def report_study(study: Study, folder: str | Path, command: str = "") -> tuple[Path, Path]:
    """Write ``report.md`` and ``report.html`` of what a study has found so far.

    Args:
        study: What was run.
        folder: Where its results are.
        command: What made the results, to be printed.

    Returns:
        Both files.

    Raises:
        ValueError: There are no results of this study.
    """
    folder = Path(folder)
    keys = {task.key: place for place, task in enumerate(study.tasks())}
    every = results.load(folder / "results.jsonl")
    rows = [row | {"label": study.label(row)} for row in every if row["key"] in keys]
    if not rows:
        raise ValueError(f"{folder} has no results of this study: run it first")
    rows.sort(key=lambda row: keys[row["key"]])
    found = StudyResults(rows, references_of(rows, folder))
    blocks: list[Block] = [
        Heading(study.about or "A study", 1),
        Text(f"{len(rows)} of {len(keys)} runs. {provenance(rows)}"),
        *([Text(f"Scored elsewhere: {dict(study.score_on)}")] if study.score_on else []),
        *([Text(f"Made by `{command}`")] if command else []),
        Heading("All problems"),
        summary(found),
        Text(LEGEND),
        Picture(draw_intervals(found), "scores.png", "Interquartile mean scores with intervals."),
        Picture(draw_profiles(found), "profiles.png", "Share of runs with at least that score."),
        Picture(draw_curves(found), "curves.png", "Best score so far, mean over all runs."),
    ]
    for problem in found.problems:
        blocks += of_problem(found, problem, study.published)
    failures = failures_of(found)
    if failures:
        blocks += [Heading("Failed"), *map(Text, failures)]
    return write(blocks, folder)


def failures_of(found: StudyResults) -> list[str]:
    """Each reason why runs failed, once for each agent and problem."""
    failed = [row for row in found.rows if row["error"]]
    lines = [f"{row['label']}, {found.names[row['problem']]}: {row['error']}" for row in failed]
    return list(dict.fromkeys(lines))


def provenance(rows: list[results.Json]) -> str:
    """Budget, environment and versions."""
    row = rows[0]
    versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    return f"{row['budget']} evaluations a run, {row['env']}; {versions}."


def summary(found: StudyResults) -> Table:
    """A line for each agent over all problems, best first."""
    floor = floor_of(found)
    lines = []
    for agent in found.agents:
        scores, greedy = found.scores(agent), found.scores(agent, "greedy_latency_ms")
        rows = [row for row in found.rows if row["label"] == agent]
        chance = (
            "-"
            if floor is None or floor == agent
            else shown(with_interval(probability_of_improvement, scores, found.scores(floor)), 2)
        )
        estimate = with_interval(interquartile_mean, scores)
        cells = [
            agent,
            shown(estimate),
            shown(with_interval(interquartile_mean, greedy)),
            chance,
            f"{sum(not row['latency_ms'] for row in rows)} of {len(rows)}",
            f"{np.median([row['evaluations'] for row in rows]):.0f}",
            f"{np.median([row['wall_s'] for row in rows]):.1f}",
        ]
        if found.scored_elsewhere:
            scored = found.scores(agent, "scored_ms")
            cells.append(shown(with_interval(interquartile_mean, scored)))
        lines.append((estimate.value, cells))
    lines.sort(key=lambda line: -np.nan_to_num(line[0]))
    columns = ["agent", "IQM score", "greedy", "better than the floor", "failed", "evals", "wall s"]
    columns += ["scored elsewhere"] if found.scored_elsewhere else []
    return Table(columns, [cells for _, cells in lines])


def floor_of(found: StudyResults) -> str | None:
    """The better of random blocks and annealing: what learning has to beat."""
    known = [agent for agent in FLOORS if agent in found.agents]
    return max(known, key=lambda agent: interquartile_mean(found.scores(agent)), default=None)


def shown(estimate: Estimate, digits: int = 3) -> str:
    """A number with its interval."""
    value, low, high = estimate
    if np.isnan(value):
        return "-"
    if low == high:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def of_problem(
    found: StudyResults, problem: str, published: Mapping[str, Mapping[str, float]]
) -> list[Block]:
    """What was found on one problem: a table, and the best placement drawn."""
    reference = found.references[problem]
    lines = []
    for agent in found.agents:
        rows = found.of(agent, problem)
        latency = known(rows, "latency_ms")
        if len(latency):
            lines.append((float(np.median(latency)), agent_line(found, problem, agent)))
        else:
            lines.append((np.inf, [agent, "failed"]))
    for label, values in published.items():
        latency_ms = values.get(found.model(problem))
        if latency_ms is not None:
            lines.append((latency_ms, [f"published: {label}", f"{latency_ms:.4g}"]))
    anchors = {
        "best single device": reference.best_single_ms,
        "proven optimum": reference.optimum_ms,
        "bound below all placements": None if reference.optimum_ms else reference.bound_ms,
    }
    lines += [(ms, [name, f"{ms:.4g}"]) for name, ms in anchors.items() if ms]
    lines.sort(key=lambda line: line[0])
    columns = ["agent", "ms", "least to most", "greedy ms", "evals", "wall s"]
    columns += ["scored ms"] if found.scored_elsewhere else []
    cells = [line + [""] * (len(columns) - len(line)) for _, line in lines]
    blocks: list[Block] = [
        Heading(found.names[problem]),
        Table(columns, cells),
    ]
    return blocks + drawn(found, problem)


def agent_line(found: StudyResults, problem: str, agent: str) -> list[str]:
    rows = found.of(agent, problem)
    latency, greedy = known(rows, "latency_ms"), known(rows, "greedy_latency_ms")
    scored = [row["scored_ms"] for row in rows if row.get("scored_ms")]
    return [
        agent,
        f"{np.median(latency):.4g}",
        f"{latency.min():.4g} to {latency.max():.4g}",
        f"{np.median(greedy):.4g}" if len(greedy) == len(rows) else "infeasible",
        f"{np.median([row['evaluations'] for row in rows]):.0f}",
        f"{np.median([row['wall_s'] for row in rows]):.1f}",
        *([f"{np.median(scored):.4g}"] if scored else []),
    ]


def known(rows: list[results.Json], field: str) -> FloatArray:
    """The values that rows have."""
    return np.array([row[field] for row in rows if row[field] is not None], dtype=np.float64)


def drawn(found: StudyResults, problem: str) -> list[Block]:
    """The fastest placement that any run found, on the graph."""
    from placement_gym.plots import draw_placement

    rows = [row for row in found.rows if row["problem"] == problem and row["latency_ms"]]
    if not rows:
        return []
    best = min(rows, key=lambda row: row["latency_ms"])
    base = arena_of(best["env"], json.dumps(best["env_kwargs"])).base
    index = {name: device for device, name in enumerate(base.problem.device_names)}
    devices = [index[best["placement"][unit]] for unit in base.problem.units.names]
    latency = f"{best['latency_ms']:.4g} ms by {best['label']}"
    caption = f"{found.names[problem]}: the fastest placement found, {latency}."
    figure = draw_placement(base.problem, np.array(devices), "")
    name = f"placement-{found.problems.index(problem)}.png"
    return [Picture(figure, name, caption)]
