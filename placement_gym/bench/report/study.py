"""The report of a study: who places best, how sure that is, and what it looks like."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np

from placement_gym.bench.report.document import Block, Heading, Picture, Table, Text, write
from placement_gym.bench.report.drift import correct_drift
from placement_gym.bench.report.known_latencies import references_of
from placement_gym.bench.report.plots import draw_curves, draw_intervals, draw_profiles
from placement_gym.bench.report.problem import of_problem
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.stats import Estimate, probability_of_improvement, with_interval
from placement_gym.bench.run import rows as rows_file
from placement_gym.bench.study.spec import Study
from placement_gym.devices import DeviceSpec, collect_cautions
from placement_gym.errors import UserError
from placement_gym.progress import progress_bar

FLOORS = ("random-blocks", "annealing")
LEGEND = (
    "A score is the least latency divided by the run's; the least is the proven optimum, or else "
    "the least that any run found, so 1 is the best known. IQM is the mean of the middle half of "
    "all runs but failed ones, with its 95 % interval by stratified bootstrap. Greedy: what the "
    "agent predicts after learning; infeasible predictions are counted, not averaged. Better than "
    "the floor: how often a run beats a run of random blocks or of annealing, whichever has the "
    "higher IQM; a failed run loses. Failed runs are in the profiles and curves with score 0."
)
FRAME = (
    "Latencies were measured at different moments; they are the median of the best single device "
    "over all runs, divided by the speed-up over it that was measured side by side."
)


def report_study(
    study: Study, folder: str | Path, command: str = "", quiet: bool = False
) -> tuple[Path, Path]:
    """Write ``report.md`` and ``report.html`` of what a study has found so far.

    Args:
        study: What was run.
        folder: Where its results are.
        command: What made the results, to be printed.
        quiet: Show no progress.

    Returns:
        Both files.

    Raises:
        ValueError: There are no results of this study.
    """
    folder, tasks = Path(folder), study.tasks()
    keys = {task.key: place for place, task in enumerate(tasks)}
    every = rows_file.of_study(folder)
    rows = [row | {"label": study.label(row)} for row in every if row["key"] in keys]
    if not rows:
        raise UserError(f"{folder} has no results of this study: run it first")
    rows.sort(key=lambda row: keys[row["key"]])
    rows = correct_drift(rows)
    of_each = {task.problem: task for task in tasks}
    with progress_bar(2 * len({row["problem"] for row in rows}), "steps", quiet) as progress:
        steps = progress.task_ids[0]
        progress.update(steps, description="optima and bounds")
        advance = partial(progress.advance, steps)
        found = StudyResults(rows, references_of(rows, of_each, folder, advance))
        progress.update(steps, description="tables and pictures")
        blocks = overview(study, found, len(keys), command)
        for problem in found.problems:
            blocks += of_problem(found, problem, of_each[problem], study.published)
            advance()
    failures = failures_of(found)
    if failures:
        blocks += [Heading("Failed"), *map(Text, failures)]
    return write(blocks, folder)


def overview(study: Study, found: StudyResults, runs: int, command: str) -> list[Block]:
    """What was run, and who is best over all problems."""
    rows = found.rows
    blocks: list[Block] = [
        Heading(study.about or "A study", 1),
        *map(Text, cautions_of(study, found)),
        Text(f"{len(rows)} of {runs} runs. {provenance(rows[0])}"),
        *([Text(f"Scored elsewhere: {dict(study.score_on)}")] if study.score_on else []),
        *([Text(f"Made by `{command}`")] if command else []),
        Heading("All problems"),
        summary(found),
        Text(f"{LEGEND} {proofs(found)}"),
    ]
    if any(row["latency_ms"] for row in rows):
        blocks += [
            Picture(draw_intervals(found), "scores.png", "Interquartile means with intervals."),
            Picture(draw_profiles(found), "profiles.png", "Share of runs with at least a score."),
            Picture(draw_curves(found), "curves.png", "Best score so far, mean over all runs."),
        ]
    return blocks


def cautions_of(study: Study, found: StudyResults) -> list[str]:
    """What a reader has to know before any latency of the study."""
    measured = gym.registry[study.env].nondeterministic
    notes = [FRAME] if measured else []
    for row in found.rows:
        devices = [DeviceSpec.from_json(values) for values in row["devices"]]
        notes += collect_cautions(devices, measured) if devices else []
    return list(dict.fromkeys(notes[::-1]))


def failures_of(found: StudyResults) -> list[str]:
    """Each reason why runs failed, once for each agent and problem."""
    failed = [row for row in found.rows if row["error"]]
    lines = [f"{row['label']}, {found.names[row['problem']]}: {row['error']}" for row in failed]
    return list(dict.fromkeys(lines))


def provenance(row: rows_file.Json) -> str:
    """Budget, environment and versions."""
    versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    return f"{row['budget']} evaluations a run, {row['env']}; {versions}."


def proofs(found: StudyResults) -> str:
    """For how many problems the optimum is known."""
    proven = sum(reference.optimum_ms is not None for reference in found.references.values())
    return f"The optimum is proven for {proven} of {len(found.problems)} problems."


def summary(found: StudyResults) -> Table:
    """A line for each agent over all problems, best first."""
    floor = floor_of(found)
    lines = []
    for agent in found.agents:
        scores = found.scores(agent)
        rows = [row for row in found.rows if row["label"] == agent]
        chance = (
            "-"
            if floor is None or floor == agent
            else shown(with_interval(probability_of_improvement, scores, found.scores(floor)), 2)
        )
        estimate = found.estimates[agent, "latency_ms"]
        cells = [
            agent,
            shown(estimate),
            greedy(found, agent),
            chance,
            f"{sum(not row['latency_ms'] for row in rows)} of {len(rows)}",
            f"{np.median([row['evaluations'] for row in rows]):.0f}",
            f"{np.median([row['wall_s'] for row in rows]):.2f}",
        ]
        if found.scored_elsewhere:
            cells.append(shown(found.estimates[agent, "scored_ms"]))
        lines.append((estimate.value, cells))
    lines.sort(key=lambda line: -np.nan_to_num(line[0]))
    columns = ["agent", "IQM score", "greedy", "better than the floor", "failed", "evals", "wall s"]
    columns += ["scored elsewhere"] if found.scored_elsewhere else []
    return Table(columns, [cells for _, cells in lines])


def greedy(found: StudyResults, agent: str) -> str:
    """The score of what is predicted after learning, and how often that is infeasible."""
    scores = found.scores(agent, "greedy_latency_ms")
    ended = found.scores(agent) > 0
    infeasible = int((scores[ended] == 0).sum())
    note = f" ({infeasible} of {ended.sum()} infeasible)" if infeasible else ""
    return shown(found.estimates[agent, "greedy_latency_ms"]) + note


def floor_of(found: StudyResults) -> str | None:
    """The better of random blocks and annealing: what learning has to beat."""
    means = {agent: found.estimates[agent, "latency_ms"].value for agent in found.agents}
    known = [agent for agent in FLOORS if not np.isnan(means.get(agent, np.nan))]
    return max(known, key=means.__getitem__, default=None)


def shown(estimate: Estimate, digits: int = 3) -> str:
    """A number with its interval."""
    value, low, high = estimate
    if np.isnan(value):
        return "-"
    if low == high:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
