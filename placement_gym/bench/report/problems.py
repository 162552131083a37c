"""The part of a study's report on each problem: its agents and its best placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.base import FloatArray, format_ms, format_ratio, write_text
from placement_gym.bench import open_runs
from placement_gym.bench.report.document import (
    escape_paragraph,
    format_heading,
    format_table,
    save_picture,
)
from placement_gym.bench.report.known_latencies import reopen_env
from placement_gym.bench.report.scores import TRIVIAL, StudyResults
from placement_gym.bench.report.wording import (
    GAP,
    count_wins,
    format_gap,
    list_remarks,
    state_verdict,
    summarize_effort,
)
from placement_gym.bench.run import BenchEnvs, Json, Task, describe_devices
from placement_gym.bench.study import ROLES, TEST, TRAIN, VALIDATION, Study
from placement_gym.problem import parse_assignment
from placement_gym.view import make_view_data, render_page
from placement_gym.view.figures import draw_placement

LEFT_OUT = "no: trivial, one device is as fast"
LEGEND_OF_PROBLEMS = (
    "ms of score 1: the lowest known latency; bound / ms: a lower bound of all placements over it."
)
LEGEND_OF_RUNS = (
    f"ms: median of the runs; gap: {GAP}; x best single: median speed-up; faster: runs that are, "
    "beyond noise; greedy ms: what is predicted after learning."
)
VIEWS = "views"
MAX_PAGE_UNITS = 20_000
"""Largest problem with a page of placements: larger pages take long to write."""


def list_problems(study: Study, results: StudyResults) -> list[str]:
    """The table of problems, its legend, and the roles of problems."""
    by_role = sorted(results.problems, key=lambda problem: ROLES.index(results.role(problem)))
    table = format_table([describe_problem(results, problem) for problem in by_role])
    proven = sum(known.optimum_ms is not None for known in results.known.values())
    proofs = f"The optimum is proven for {proven} of {len(results.problems)} problems."
    roles = f"{describe_roles(study, results)} {proofs}"
    return [table, escape_paragraph(LEGEND_OF_PROBLEMS), escape_paragraph(roles)]


def describe_problem(results: StudyResults, problem: str) -> dict[str, str]:
    reference = results.score_references[problem]
    line = {
        "problem": results.names[problem],
        "role": results.role(problem),
        "ms of score 1": f"{reference.latency_ms:.6g}",
        "found by": reference.origin,
        "bound / ms": format_bound(results, problem),
        "averaged": LEFT_OUT if reference.trivial else "yes",
    }
    if results.scored_elsewhere:
        line["ms of score 1 elsewhere"] = f"{results.least_elsewhere_ms[problem]:.6g}"
    return line


def format_bound(results: StudyResults, problem: str) -> str:
    """The lower bound as a share of the lowest latency, or ``"optimal"``."""
    known = results.known.get(problem)
    if known is not None and known.optimum_ms is not None:
        return "optimal"
    if known is None or not known.bound_ms:
        return "-"
    return f"{known.bound_ms / results.score_references[problem].latency_ms:.3f}"


def describe_roles(study: Study, results: StudyResults) -> str:
    trained, chosen = (join_entries(study.roles.get(role, ())) for role in (TRAIN, VALIDATION))
    parts = [f"Agents are trained on {trained}."] if trained else []
    if not chosen:
        parts.append("The study names no validation problem: settings may be chosen on any.")
        return " ".join(parts)
    parts.append(f"Settings are chosen on the validation problems, {chosen}.")
    if not any(results.role(problem) == TEST for problem in results.problems):
        parts.append("There is no test problem: nothing is said about other problems.")
    return " ".join(parts)


def join_entries(entries: Sequence[Any]) -> str:
    return ", ".join(
        f"{entry['model']} on {describe_devices(entry['devices'])}"
        if isinstance(entry, Mapping)
        else str(entry)
        for entry in entries
    )


def report_problem(
    results: StudyResults,
    problem: str,
    task: Task,
    published: Mapping[str, Mapping[str, float]],
    envs: BenchEnvs,
    folder: Path,
) -> list[str]:
    """The results on the problem of a task: a table, a verdict, the best placement."""
    known = results.known[problem]
    # Agents, published and known latencies are one list, the lowest latency first.
    lines = [summarize_runs(results, problem, agent) for agent in results.agents]
    for label, values in published.items():
        if latency_ms := values.get(task.model):
            lines.append((latency_ms, {"agent": f"published: {label}", "ms": f"{latency_ms:.4g}"}))
    lines += [(ms, {"agent": name, "ms": format_ms(ms)}) for name, ms in known.named.items()]
    lines.sort(key=lambda line: line[0])
    rows = [row for row in results.rows if row["problem"] == problem]
    trivial = results.score_references[problem].trivial
    verdict = state_verdict(rows, known.one_device_holds_the_model)
    return [
        format_heading(results.names[problem]),
        *([f"{TRIVIAL} It is in no average."] if trivial else []),
        format_table([line for _, line in lines]),
        *map(escape_paragraph, [LEGEND_OF_RUNS, verdict, *list_remarks(rows)]),
        *draw_best_placement(results, problem, task, envs, folder),
    ]


def summarize_runs(results: StudyResults, problem: str, agent: str) -> tuple[float, dict[str, str]]:
    """The median latency of an agent, infinite if all runs failed, and its line of the table."""
    rows, known = results.rows_of(agent, problem), results.known[problem]
    latency, scored = known_values(rows, "latency_ms"), known_values(rows, "scored_ms")
    failed = f"{len(rows) - len(latency)} of {len(rows)}"
    if not len(latency):
        empty_cells = dict.fromkeys(("ms", "range", "gap", "x best single", "faster"), "-")
        return np.inf, {"agent": agent, **empty_cells, "failed": failed}
    speedup, noise = (
        float(np.median(known_values(rows, field))) for field in ("speedup_vs_best_single", "noise")
    )
    median = float(np.median(latency))
    line = {
        "agent": agent,
        "ms": format_ms(median),
        "range": f"{format_ms(latency.min())} to {format_ms(latency.max())}",
        "gap": format_gap(median, known),
        "x best single": format_ratio(speedup, noise) if known.best_single_ms is not None else "-",
        "faster": format_wins(rows) if known.one_device_holds_the_model else "-",
        "failed": failed,
        "greedy ms": format_greedy(rows),
        **summarize_effort(rows),
    }
    if len(scored):
        line["scored ms"] = format_ms(float(np.median(scored)))
    return median, line


def format_wins(rows: list[Json]) -> str:
    doubtful = sum(bool(row["warning"]) for row in rows)
    return f"{count_wins(rows)} of {len(rows)}" + (f" ({doubtful} doubtful)" if doubtful else "")


def known_values(rows: list[Json], field: str) -> FloatArray:
    return np.array([row[field] for row in rows if row[field] is not None], dtype=np.float64)


def format_greedy(rows: list[Json]) -> str:
    """The median latency of feasible greedy placements, and how many are infeasible."""
    latency = known_values(rows, "greedy_latency_ms")
    if not len(latency):
        return "infeasible"
    n_infeasible = len(known_values(rows, "latency_ms")) - len(latency)
    note = f" ({n_infeasible} infeasible)" if n_infeasible else ""
    return f"{format_ms(float(np.median(latency)))}{note}"


def draw_best_placement(
    results: StudyResults, problem: str, task: Task, envs: BenchEnvs, folder: Path
) -> list[str]:
    """Draw the fastest placement of all runs, or explain why that is not possible."""
    rows = [row for row in results.rows if row["problem"] == problem and row["latency_ms"]]
    if not rows:
        return []
    best = min(rows, key=lambda row: row["latency_ms"])
    bench_env = reopen_env(task, [best], envs)
    if bench_env is None:
        return ["The placement is not drawn: its model is not here or has changed."]
    base, number = bench_env.base, results.problems.index(problem)
    try:
        assignment = parse_assignment(best["placement"], base.problem)
        figure = draw_placement(base.problem, assignment, "")
    except Exception as error:
        return [escape_paragraph(f"The placement is not drawn: {error}.")]
    latency = f"{format_ms(best['latency_ms'])} ms by {best['label']}"
    caption = f"{results.names[problem]}: the fastest placement found, {latency}."
    return [
        save_picture(figure, folder, f"placement-{number}", caption),
        write_view(rows, task, folder, number, base.problem.n_units),
    ]


def write_view(rows: Sequence[Json], task: Task, folder: Path, number: int, n_units: int) -> str:
    """Write the page of each agent's fastest placement; return a link to it, or why not."""
    if n_units > MAX_PAGE_UNITS:
        return f"{n_units:,} units: placement-gym view writes the interactive page."
    path = f"{VIEWS}/problem-{number}.html"
    try:
        # The study decides what file is opened, not the rows.
        task_rows = [row | {"env_kwargs": task.make_kwargs} for row in rows]
        page = render_page(make_view_data(open_runs(task_rows)))
        if (folder / VIEWS).is_symlink():  # as links of files, replaced and not followed
            (folder / VIEWS).unlink()
        (folder / VIEWS).mkdir(exist_ok=True)
        write_text(folder / path, page)
    except Exception as error:
        return escape_paragraph(f"There is no interactive view: {error}")
    return f"[Explore these placements: graph, timeline and comparison]({path})"
