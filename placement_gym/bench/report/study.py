"""The report of a study: who places best, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from placement_gym.base import UserError, progress_bar
from placement_gym.bench.report.document import Block, Code, Heading, Picture, Text, write_report
from placement_gym.bench.report.drift import NOTE, correct_drift
from placement_gym.bench.report.known_latencies import load_known_latencies
from placement_gym.bench.report.overview import FLOORS, summarize_agents, summarize_study
from placement_gym.bench.report.plots import draw_curves, draw_intervals, draw_profiles
from placement_gym.bench.report.problems import describe_roles, list_problems, report_problem
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.wording import GAP, INFEASIBLE, explain_failure
from placement_gym.bench.run import BenchEnvs, Json, is_measured, load_runs
from placement_gym.bench.study import ROLES, Study
from placement_gym.hardware import DeviceSpec, collect_cautions
from placement_gym.version import VERSION

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
    order = {task.key: place for place, task in enumerate(tasks)}
    # The folder may hold rows of other studies.
    rows = [row for row in load_runs(folder) if row["key"] in order]
    rows = [row | {"label": study.label(row)} for row in rows]
    if not rows:
        raise UserError(f"{folder} has no results of this study: run it first")
    # The study's order, not that in which runs ended: the report of a repeated study is the same.
    rows.sort(key=lambda row: order[row["key"]])
    rows = correct_drift(rows)
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
        blocks = report_overview(study, results, len(order), command)
        blocks += [
            Heading("Problems"),
            list_problems(results),
            Text(f"{describe_roles(study, results)} {count_proofs(results)}"),
        ]
        for problem in results.problems:
            blocks += report_problem(
                results, problem, task_of[problem], study.published, envs, folder
            )
            advance()
    failures = list_failures(results)
    if failures:
        blocks += [Heading("Failed"), *map(Text, failures)]
    return write_report(blocks, folder)


def report_overview(study: Study, results: StudyResults, runs: int, command: str) -> list[Block]:
    """The answer, the agents over the problems of each role, best first, and what was run."""
    rows = results.rows
    first, *further = report_roles(results) or [[]]
    return [
        Heading((study.about or "A study").removesuffix("."), 1),
        *first[:1],
        *map(Text, list_cautions(study, results)),
        *first[1:],
        *(block for blocks in further for block in blocks[1:]),
        Heading("How it was made and how to read it"),
        Text(f"{len(rows)} of {runs} runs. {describe_provenance(rows[0])}"),
        *([Text(f"Scored elsewhere: {dict(study.score_on)}")] if study.score_on else []),
        *([Code("Made by", command)] if command else []),
        Text(LEGEND),
    ]


def report_roles(results: StudyResults) -> list[list[Block]]:
    """An answer and the agents over the problems of each role; pictures for the first one."""
    roles = [role for role in ROLES if any(results.role(p) == role for p in results.problems)]
    parts: list[list[Block]] = []
    for role in roles:
        results_of_role = results.only(results.counted(role))
        heading = Heading(f"All {role} problems")
        if not results_of_role.rows:
            remark = "Nothing to average: one device is as fast on each of them."
            parts.append([Text(remark, bold=True), heading, Text(remark)])
            continue
        parts.append(
            [
                Text(summarize_study(results_of_role, role), bold=True),
                heading,
                summarize_agents(results_of_role),
            ]
        )
        if role == roles[0] and any(row["latency_ms"] for row in results_of_role.rows):
            parts[-1] += draw_agents(results_of_role, role)
    return parts


def draw_agents(results: StudyResults, role: str) -> list[Block]:
    """Pictures of the agents over all problems of the results, which have one role."""
    caption = f"{role.capitalize()} problems:"
    return [
        Picture(
            draw_intervals(results),
            "scores",
            f"{caption} means over problems, and interquartile means with intervals.",
        ),
        Picture(
            draw_profiles(results),
            "profiles",
            f"{caption} share of runs with at least a score, with 95 % intervals.",
        ),
        Picture(
            draw_curves(results),
            "curves",
            f"{caption} best score so far, mean over all runs with 95 % intervals.",
        ),
    ]


def list_cautions(study: Study, results: StudyResults) -> list[str]:
    """Notes that a reader needs before any latency of the study."""
    measured = is_measured(study.env)
    notes = [NOTE] if measured else []
    notes += note_other_versions(results.rows)
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
