"""The report of a study: who places best, and how certain that is."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np

from placement_gym.bench.report.document import (
    Block,
    Code,
    Heading,
    Picture,
    Table,
    Text,
    write_report,
)
from placement_gym.bench.report.drift import NOTE, correct_drift
from placement_gym.bench.report.formats import GAP_LEGEND
from placement_gym.bench.report.known_latencies import load_known_latencies
from placement_gym.bench.report.plots import draw_curves, draw_intervals, draw_profiles
from placement_gym.bench.report.problem import report_problem
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.stats import Estimate, bootstrap, probability_of_improvement
from placement_gym.bench.run.environment import BenchEnvs
from placement_gym.bench.run.rows import Json, load_runs
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
    "higher IQM; a failed run loses. Failed runs are in the profiles and curves with score 0. "
    f"In the tables of problems, {GAP_LEGEND}."
)


def report_study(
    study: Study, folder: str | Path, command: str = "", quiet: bool = False
) -> tuple[Path, Path]:
    """Write ``report.md`` and ``report.html`` of the results that a study has so far.

    Args:
        study: What was run.
        folder: Where its results are.
        command: The command that made the results, to be printed.
        quiet: Show no progress.

    Returns:
        Both files.

    Raises:
        UserError: There are no results of this study.
    """
    folder, tasks = Path(folder), study.tasks()
    order = {task.key: place for place, task in enumerate(tasks)}
    runs = load_runs(folder)
    rows = [row | {"label": study.label(row)} for row in runs if row["key"] in order]
    if not rows:
        raise UserError(f"{folder} has no results of this study: run it first")
    rows.sort(key=lambda row: order[row["key"]])
    rows = correct_drift(rows)
    task_of = {task.problem: task for task in tasks}
    n_problems = len({row["problem"] for row in rows})
    with BenchEnvs() as envs, progress_bar(2 * n_problems, "steps", quiet) as progress:
        steps = progress.task_ids[0]
        progress.update(steps, description="optima and bounds")
        advance = partial(progress.advance, steps)
        known = load_known_latencies(rows, task_of, folder, envs, advance)
        results = StudyResults(rows, known)
        progress.update(steps, description="tables and pictures")
        blocks = report_overview(study, results, len(order), command)
        for problem in results.problems:
            blocks += report_problem(results, problem, task_of[problem], study.published, envs)
            advance()
    failures = list_failures(results)
    if failures:
        blocks += [Heading("Failed"), *map(Text, failures)]
    return write_report(blocks, folder)


def report_overview(study: Study, results: StudyResults, runs: int, command: str) -> list[Block]:
    """What was run, and the agents over all problems, best first."""
    rows = results.rows
    blocks: list[Block] = [
        Heading(study.about or "A study", 1),
        *map(Text, list_cautions(study, results)),
        Text(f"{len(rows)} of {runs} runs. {describe_provenance(rows[0])}"),
        *([Text(f"Scored elsewhere: {dict(study.score_on)}")] if study.score_on else []),
        *([Code("Made by", command)] if command else []),
        Heading("All problems"),
        summarize_agents(results),
        Text(f"{LEGEND} {count_proofs(results)}"),
    ]
    if any(row["latency_ms"] for row in rows):
        blocks += [
            Picture(draw_intervals(results), "scores.png", "Interquartile means with intervals."),
            Picture(draw_profiles(results), "profiles.png", "Share of runs with at least a score."),
            Picture(draw_curves(results), "curves.png", "Best score so far, mean over all runs."),
        ]
    return blocks


def list_cautions(study: Study, results: StudyResults) -> list[str]:
    """Notes that a reader needs before any latency of the study."""
    measured = gym.registry[study.env].nondeterministic
    notes = [NOTE] if measured else []
    for row in results.rows:
        devices = [DeviceSpec.from_json(values) for values in row["devices"]]
        notes += collect_cautions(devices, measured) if devices else []
    return list(dict.fromkeys(notes[::-1]))


def list_failures(results: StudyResults) -> list[str]:
    """A line for each agent, problem and reason of failure."""
    failed = [row for row in results.rows if row["error"]]
    lines = [f"{row['label']}, {results.names[row['problem']]}: {row['error']}" for row in failed]
    return list(dict.fromkeys(lines))


def describe_provenance(row: Json) -> str:
    """Budget, environment and versions."""
    versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    return f"{row['budget']} evaluations a run, {row['env']}; {versions}."


def count_proofs(results: StudyResults) -> str:
    """For how many problems the optimum is known."""
    proven = sum(known.optimum_ms is not None for known in results.known.values())
    return f"The optimum is proven for {proven} of {len(results.problems)} problems."


def summarize_agents(results: StudyResults) -> Table:
    """A line for each agent over all problems, best first."""
    floor = choose_floor(results)
    lines = []
    for agent in results.agents:
        scores = results.scores(agent)
        rows = [row for row in results.rows if row["label"] == agent]
        chance = (
            "-"
            if floor is None or floor == agent
            else format_estimate(
                bootstrap(probability_of_improvement, scores, results.scores(floor)), 2
            )
        )
        estimate = results.estimates[agent, "latency_ms"]
        cells = [
            agent,
            format_estimate(estimate),
            format_greedy(results, agent),
            chance,
            f"{sum(not row['latency_ms'] for row in rows)} of {len(rows)}",
            f"{np.median([row['evaluations'] for row in rows]):.0f}",
            f"{np.median([row['wall_s'] for row in rows]):.2f}",
        ]
        if results.scored_elsewhere:
            cells.append(format_estimate(results.estimates[agent, "scored_ms"]))
        lines.append((estimate.value, cells))
    lines.sort(key=lambda line: -np.nan_to_num(line[0]))
    columns = ["agent", "IQM score", "greedy", "better than the floor", "failed", "evals", "wall s"]
    columns += ["scored elsewhere"] if results.scored_elsewhere else []
    return Table(columns, [cells for _, cells in lines])


def format_greedy(results: StudyResults, agent: str) -> str:
    """The score of what is predicted after learning, and how often that is infeasible."""
    scores = results.scores(agent, "greedy_latency_ms")
    ended = results.scores(agent) > 0
    infeasible = int((scores[ended] == 0).sum())
    note = f" ({infeasible} of {ended.sum()} infeasible)" if infeasible else ""
    return format_estimate(results.estimates[agent, "greedy_latency_ms"]) + note


def choose_floor(results: StudyResults) -> str | None:
    """The better of random blocks and annealing: what learning has to beat."""
    means = {agent: results.estimates[agent, "latency_ms"].value for agent in results.agents}
    known = [agent for agent in FLOORS if not np.isnan(means.get(agent, np.nan))]
    return max(known, key=means.__getitem__, default=None)


def format_estimate(estimate: Estimate, digits: int = 3) -> str:
    """A number with its interval."""
    value, low, high = estimate
    if np.isnan(value):
        return "-"
    if low == high:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
