"""The report of a study: who places best, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from placement_gym.base import UserError, progress_bar, write_text
from placement_gym.bench.report.document import (
    code_span,
    escape_paragraph,
    format_bold,
    format_heading,
    save_picture,
)
from placement_gym.bench.report.known_latencies import load_known_latencies
from placement_gym.bench.report.overview import FLOORS, summarize_agents, summarize_study
from placement_gym.bench.report.plots import draw_curves, draw_intervals, draw_profiles
from placement_gym.bench.report.problems import describe_roles, list_problems, report_problem
from placement_gym.bench.report.scores import DRIFT_NOTE, StudyResults, correct_drift
from placement_gym.bench.report.wording import GAP, INFEASIBLE, explain_failure
from placement_gym.bench.run import BenchEnvs, Json, is_measured, load_runs
from placement_gym.bench.study import ROLES, Study
from placement_gym.hardware import DeviceSpec, collect_cautions
from placement_gym.version import VERSION

PICTURES = {
    "scores": (
        draw_intervals,
        "means over problems, and interquartile means with intervals.",
    ),
    "profiles": (draw_profiles, "share of runs with at least a score, with 95 % intervals."),
    "curves": (draw_curves, "best score so far, mean over all runs with 95 % intervals."),
}
"""Name of a picture's file -> how it is drawn, and what it shows."""
LEGEND = (
    "A score is the lowest latency that is known, which the table of problems states, divided by "
    "the run's; 1 is the best known. Mean: over problems, of the median of each problem's runs, "
    "where a failed run counts 0. IQM: the mean of the middle half of all runs but failed ones, so "
    "of the middle problems, with its 95 % interval by stratified bootstrap. Trivial problems are "
    "in neither. Greedy: what the agent predicts after learning; an infeasible prediction counts "
    "as a failed run. Better than the floor: how often a run beats a run of the best agent that "
    f"needs no learning ({', '.join(FLOORS)}); a failed run loses. Failed runs are in the profiles "
    "and curves with score 0. "
    f"Infeas.: {INFEASIBLE}. In the tables of problems, gap: {GAP}."
)


def report_study(study: Study, folder: str | Path, command: str = "", quiet: bool = False) -> Path:
    """Write ``report.md``, its pictures and ``views`` of the results that a study has so far.

    Args:
        study: What was run.
        folder: Where its results are.
        command: The command that made the results, to be printed.
        quiet: Show no progress.

    Returns:
        The file ``report.md``.

    Raises:
        UserError: There are no results of this study.
    """
    folder, tasks = Path(folder), study.tasks()
    # The study's order, not that in which runs ended: the report of a repeated study is the same.
    # The folder may hold rows of other studies.
    order = {task.key: place for place, task in enumerate(tasks)}
    rows = [row for row in load_runs(folder) if row["key"] in order]
    rows.sort(key=lambda row: order[row["key"]])
    if not rows:
        raise UserError(f"{folder} has no results of this study: run it first")
    rows = correct_drift([row | {"label": study.label(row)} for row in rows])
    task_of = {task.problem: task for task in tasks}
    n_problems = len({row["problem"] for row in rows})
    # Each problem takes two steps, its bound and its tables, which share an environment.
    with BenchEnvs() as envs, progress_bar(2 * n_problems, "steps", quiet) as progress:
        steps = progress.task_ids[0]
        progress.update(steps, description="optima and bounds")
        advance = partial(progress.advance, steps)
        known = load_known_latencies(rows, task_of, folder, envs, advance)
        # Scores need every problem's latencies: which one is trivial decides what is averaged.
        results = StudyResults(rows, known, study.role_of)
        progress.update(steps, description="tables and pictures")
        # The answer comes first, then the problems, then what failed.
        parts = report_overview(study, results, len(order), command, folder)
        roles = f"{describe_roles(study, results)} {count_proofs(results)}"
        parts += [format_heading("Problems"), list_problems(results), escape_paragraph(roles)]
        for problem in results.problems:
            parts += report_problem(
                results, problem, task_of[problem], study.published, envs, folder
            )
            advance()
    if failures := list_failures(results):
        parts += [format_heading("Failed"), *map(escape_paragraph, failures)]
    file = folder / "report.md"
    write_text(file, "\n\n".join(parts) + "\n")
    return file


def report_overview(
    study: Study, results: StudyResults, n_runs: int, command: str, folder: Path
) -> list[str]:
    """The answer, the agents over the problems of each role, best first, and what was run."""
    rows = results.rows
    (answer, *first), *further = report_roles(results, folder)
    sentences = [f"{len(rows)} of {n_runs} runs. {describe_provenance(rows[0])}"]
    if study.score_on:
        sentences.append(f"Scored elsewhere: {dict(study.score_on)}")
    return [
        format_heading((study.about or "A study").removesuffix("."), 1),
        answer,
        *map(escape_paragraph, list_cautions(study, results)),
        *first,
        *(part for parts in further for part in parts[1:]),
        format_heading("How it was made and how to read it"),
        *map(escape_paragraph, sentences),
        *([f"Made by {code_span(command)}"] if command else []),
        escape_paragraph(LEGEND),
    ]


def report_roles(results: StudyResults, folder: Path) -> list[list[str]]:
    """An answer and the agents over the problems of each role; pictures for the first one."""
    present = {results.role(problem) for problem in results.problems}
    parts = []
    for role in [role for role in ROLES if role in present]:
        averaged = results.only(results.counted(role))
        heading = format_heading(f"All {role} problems")
        if not averaged.rows:
            remark = "Nothing to average: one device is as fast on each of them."
            parts.append([format_bold(remark), heading, escape_paragraph(remark)])
            continue
        answer = format_bold(summarize_study(averaged, role))
        pictures = [
            save_picture(draw(averaged), folder, name, f"{role.capitalize()} problems: {shown}")
            for name, (draw, shown) in PICTURES.items()
            if not parts and any(row["latency_ms"] for row in averaged.rows)
        ]
        parts.append([answer, heading, summarize_agents(averaged), *pictures])
    return parts


def list_cautions(study: Study, results: StudyResults) -> list[str]:
    """Notes that a reader needs before any latency of the study."""
    measured = is_measured(study.env)
    notes = [*([DRIFT_NOTE] if measured else []), *note_other_versions(results.rows)]
    for row in results.rows:
        devices = [DeviceSpec.from_json(values) for values in row["devices"]]
        notes += collect_cautions(devices, measured) if devices else []
    return list(dict.fromkeys(notes[::-1]))


def list_failures(results: StudyResults) -> list[str]:
    """A line for each agent, problem and reason of failure."""
    failed = [row for row in results.rows if row["error"]]
    lines = [explain_failure(row, results.names[row["problem"]]) for row in failed]
    return list(dict.fromkeys(lines))


def describe_provenance(row: Json) -> str:
    """Budget, environment and versions."""
    versions = {"placement-gym": row["version"]} | row["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{row['budget']} evaluations a run, {row['env']}; {listed}."


def note_other_versions(rows: Sequence[Json]) -> list[str]:
    """A sentence where rows carry another version of this package: agents may not be today's."""
    made_by = sorted({row["version"] for row in rows if row["version"]} - {VERSION})
    if not made_by:
        return []
    return [
        f"Rows carry version {' and '.join(made_by)} of this package; options that they do not "
        f"name may have other defaults in {VERSION}."
    ]


def count_proofs(results: StudyResults) -> str:
    """Count the problems whose optimum is known."""
    proven = sum(known.optimum_ms is not None for known in results.known.values())
    return f"The optimum is proven for {proven} of {len(results.problems)} problems."
