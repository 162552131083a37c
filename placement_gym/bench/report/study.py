"""The report of a study: who places best, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from placement_gym.backends import YES
from placement_gym.base import progress_bar, write_text
from placement_gym.bench.report.document import (
    code_span,
    escape_paragraph,
    format_bold,
    format_heading,
    format_table,
    save_picture,
)
from placement_gym.bench.report.known_latencies import load_known_latencies
from placement_gym.bench.report.plots import draw_curves, draw_intervals, draw_profiles
from placement_gym.bench.report.problems import list_problems, report_problem
from placement_gym.bench.report.scores import DRIFT_NOTE, StudyResults, correct_drift
from placement_gym.bench.report.stats import Estimate, bootstrap, probability_of_improvement
from placement_gym.bench.report.wording import (
    INFEASIBLE,
    explain_agents,
    explain_failure,
    summarize_effort,
)
from placement_gym.bench.run import BenchEnvs, Json, is_measured
from placement_gym.bench.study import ROLES, Study, load_study_rows
from placement_gym.hardware import DeviceSpec, collect_cautions
from placement_gym.version import VERSION

PICTURES = {
    "scores": (draw_intervals, "means over problems, and interquartile means with intervals."),
    "profiles": (draw_profiles, "share of runs with at least a score, with 95 % intervals."),
    "curves": (draw_curves, "best score so far, mean over all runs with 95 % intervals."),
}
"""Name of a file -> how it is drawn, and its caption."""
NOTHING_TO_AVERAGE = "Nothing to average: one device is as fast on each of them."
FLOORS = ("random-blocks", "hill-climb", "annealing", "search", "greedy")
"""Agents without learning; the best of them is what learning has to beat."""
MAX_EQUAL_DIFFERENCE = 5e-4
"""Difference of mean scores that are printed alike."""
LEGEND = (
    "Scores are the lowest known latency over a run's: 1 is the best known. mean: over problems, "
    "of the median run, 0 if it failed; IQM: of the middle half of the runs that did not fail, "
    "with its 95 % interval; greedy: what is predicted after learning; better than the floor: "
    f"share of runs that beat one of the best of {', '.join(FLOORS)}; infeas.: {INFEASIBLE}."
)


def report_study(study: Study, folder: str | Path, command: str = "", quiet: bool = False) -> Path:
    """Write ``report.md``, its pictures and ``views`` of the results that a study has so far.

    Args:
        study: The study.
        folder: Folder with its results.
        command: The command that made the results, which the report states.
        quiet: Show no progress.

    Returns:
        The file ``report.md``.

    Raises:
        UserError: There are no results of this study.
    """
    folder, tasks = Path(folder), study.tasks()
    rows = load_study_rows(study, folder)
    rows = correct_drift([row | {"label": study.label(row)} for row in rows])
    task_of = {task.problem: task for task in tasks}
    n_problems = len({row["problem"] for row in rows})
    # Two steps for each problem: its bound and its tables.
    with BenchEnvs() as envs, progress_bar(2 * n_problems, "steps", quiet) as progress:
        steps = progress.task_ids[0]
        progress.update(steps, description="optima and bounds")
        advance = partial(progress.advance, steps)
        known = load_known_latencies(rows, task_of, folder, envs, advance)
        results = StudyResults(rows, known, study.role_of)
        progress.update(steps, description="tables and pictures")
        parts = report_overview(study, results, len(tasks), command, folder)
        parts += [format_heading("Problems"), *list_problems(study, results)]
        for problem in results.problems:
            parts += report_problem(
                results, problem, task_of[problem], study.published, envs, folder
            )
            advance()
    failed = [row for row in results.rows if row["error"]]
    failures = [explain_failure(row, results.names[row["problem"]]) for row in failed]
    if failures:
        parts += [format_heading("Failed"), *map(escape_paragraph, dict.fromkeys(failures))]
    file = folder / "report.md"
    write_text(file, "\n\n".join(parts) + "\n")
    return file


def report_overview(
    study: Study, results: StudyResults, n_runs: int, command: str, folder: Path
) -> list[str]:
    """The answer, the agents over the problems of each role, best first, and what was run."""
    rows, row = results.rows, results.rows[0]
    present = {results.role(problem) for problem in results.problems}
    first, *others = [
        (results.only(results.counted(role)), role) for role in ROLES if role in present
    ]
    versions = {"placement-gym": row["version"]} | row["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    made = f"{row['budget']} evaluations a run, {row['env']}; {listed}."
    sentences = [f"{len(rows)} of {n_runs} runs. {made}"]
    sentences += filter(None, [explain_agents(row["agent"] for row in rows)])
    if study.score_on:
        sentences.append(f"Scored elsewhere: {dict(study.score_on)}")
    return [
        format_heading((study.about or "A study").removesuffix("."), 1),
        format_bold(summarize_study(*first)),
        *map(escape_paragraph, list_cautions(study, results)),
        *report_role(*first),
        *draw_scores(*first, folder),
        *(part for other in others for part in report_role(*other)),
        format_heading("How it was made"),
        *map(escape_paragraph, sentences),
        *([f"Made by {code_span(command)}"] if command else []),
    ]


def report_role(averaged: StudyResults, role: str) -> list[str]:
    """The agents over the problems of a role, best first."""
    heading = format_heading(f"All {role} problems")
    if not averaged.rows:
        return [heading, escape_paragraph(NOTHING_TO_AVERAGE)]
    return [heading, summarize_agents(averaged), escape_paragraph(LEGEND)]


def draw_scores(averaged: StudyResults, role: str, folder: Path) -> list[str]:
    """Pictures of the agents over the problems of a role, if a run succeeded."""
    if not any(row["latency_ms"] for row in averaged.rows):
        return []
    return [
        save_picture(draw(averaged), folder, name, f"{role.capitalize()} problems: {caption}")
        for name, (draw, caption) in PICTURES.items()
    ]


def list_cautions(study: Study, results: StudyResults) -> list[str]:
    measured = is_measured(study.env)
    notes = [*([DRIFT_NOTE] if measured else []), *note_other_versions(results.rows)]
    for row in results.rows:
        devices = [DeviceSpec.from_json(values) for values in row["devices"]]
        notes += collect_cautions(devices, measured) if devices else []
    return list(dict.fromkeys(notes[::-1]))


def note_other_versions(rows: Sequence[Json]) -> list[str]:
    """Warn if rows are of another version of this package, whose agents may differ."""
    made_by = sorted({row["version"] for row in rows if row["version"]} - {VERSION})
    note = (
        f"Rows carry version {' and '.join(made_by)} of this package; options that they do not "
        f"name may have other defaults in {VERSION}."
    )
    return [note] if made_by else []


def summarize_agents(results: StudyResults) -> str:
    return format_table([summarize_agent(results, agent) for agent in results.ranking])


def summarize_agent(results: StudyResults, agent: str) -> dict[str, str]:
    rows, floor, chance = results.rows_of(agent), choose_floor(results), "-"
    if floor not in (None, agent):
        chance = format_estimate(estimate_chance(results, agent, str(floor)), 2)
    line = {
        "agent": agent,
        "mean": format_mean(results, agent),
        "IQM": format_iqm(results, agent),
        "greedy mean": format_mean(results, agent, "greedy_latency_ms"),
        "greedy IQM": format_greedy_iqm(results, agent),
        "better than the floor": chance,
        "failed": f"{sum(not row['latency_ms'] for row in rows)} of {len(rows)}",
        **summarize_effort(rows),
    }
    if results.scored_elsewhere:
        line["mean elsewhere"] = format_mean(results, agent, "scored_ms")
        line["IQM elsewhere"] = format_iqm(results, agent, "scored_ms")
    return line


def format_mean(results: StudyResults, agent: str, field: str = "latency_ms") -> str:
    mean = results.means[agent, field]
    return "-" if np.isnan(mean) else f"{mean:.3f}"


def format_iqm(results: StudyResults, agent: str, field: str = "latency_ms") -> str:
    return format_estimate(results.estimates[agent, field])


def format_greedy_iqm(results: StudyResults, agent: str) -> str:
    scores = results.scores(agent, "greedy_latency_ms")
    has_score = results.scores(agent) > 0
    infeasible = int((scores[has_score] == 0).sum())
    note = f" ({infeasible} of {has_score.sum()} infeasible)" if infeasible else ""
    return format_iqm(results, agent, "greedy_latency_ms") + note


def estimate_chance(results: StudyResults, agent: str, rival: str) -> Estimate:
    return bootstrap(probability_of_improvement, results.scores(agent), results.scores(rival))


def choose_floor(results: StudyResults) -> str | None:
    """The agent of ``FLOORS`` with the best mean over problems."""
    floors = {row["label"] for row in results.rows if row["agent"] in FLOORS and row["latency_ms"]}
    return next((agent for agent in results.ranking if agent in floors), None)


def format_estimate(estimate: Estimate, digits: int = 3) -> str:
    value, low, high = estimate
    if np.isnan(value):
        return "-"
    if low == high:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def summarize_study(results: StudyResults, role: str) -> str:
    """State in one sentence which agent places best on the problems of a role."""
    if not results.rows:
        return NOTHING_TO_AVERAGE
    ranked = [agent for agent in results.ranking if results.means[agent, "latency_ms"] > 0]
    if not ranked:
        return "No run ended with a placement."
    means = [results.means[agent, "latency_ms"] for agent in ranked]
    n_best = sum(mean > means[0] - MAX_EQUAL_DIFFERENCE for mean in means)
    iqm = format_iqm(results, ranked[0])
    alike = f" (as do {n_best - 1} others)" if n_best > 2 else ""
    alike = f" (as does {ranked[1]})" if n_best == 2 else alike
    n = len(results.problems)
    scope = f"the {role} problem" if n == 1 else f"{n} {role} problems"
    return (
        f"Over {scope}, {ranked[0]} places best{alike}: mean score {means[0]:.3f}, interquartile "
        f"mean {iqm}, where 1 is the best known. {compare_with_floor(results, ranked)}"
        f"{count_split_wins(results)}"
    )


def compare_with_floor(results: StudyResults, ranked: list[str]) -> str:
    """State how many agents beat the floor beyond chance."""
    floor = choose_floor(results)
    rivals = [agent for agent in ranked if agent != floor]
    if floor is None or not rivals:
        return ""
    better = [agent for agent in rivals if estimate_chance(results, agent, floor).low > 0.5]
    names = f": {', '.join(better)}" if 0 < len(better) <= 3 else ""
    return (
        f"{len(better) or 'None'} of the {len(rivals)} other agents "
        f"{'beats' if len(better) == 1 else 'beat'} the floor, {floor}, in most runs{names}. "
    )


def count_split_wins(results: StudyResults) -> str:
    """State on how many problems a split beats the best single device."""
    unsplit = {p for p in results.problems if not results.known_of(p).one_device_holds_the_model}
    won = {row["problem"] for row in results.rows if row["beats_best_single"] == YES} - unsplit
    n = len(results.problems)
    if n == len(unsplit):
        return f"No single device may run {'the model' if n == 1 else 'any of the models'}."
    if n == 1:
        verb = "beats" if won else "does not beat"
        return f"Splitting the model {verb} the best single device."
    remark = f"; no single device may run the model of {len(unsplit)}" if unsplit else ""
    wins = len(won) or "none"
    return f"Splitting the model beats the best single device on {wins} of them{remark}."
