"""The problems of a study: what each is for, and what its scores are relative to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placement_gym.bench.report.document import Table
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.study.roles import ROLES, TEST, TRAIN, VALIDATION
from placement_gym.bench.study.spec import Study
from placement_gym.bench.study.task import describe_devices

COLUMNS = ("problem", "role", "ms of score 1", "found by", "bound / ms", "averaged")
LEFT_OUT = "no: trivial, one device is as fast"


def list_problems(results: StudyResults) -> Table:
    """A line for each problem."""
    columns = [*COLUMNS, *(["ms of score 1 elsewhere"] if results.scored_elsewhere else [])]
    by_role = sorted(results.problems, key=lambda problem: ROLES.index(results.role(problem)))
    return Table(columns, [describe_problem(results, problem) for problem in by_role])


def describe_problem(results: StudyResults, problem: str) -> list[str]:
    """The line of a problem."""
    reference = results.score_references[problem]
    elsewhere = f"{results.least_elsewhere_ms[problem]:.6g}"
    return [
        results.names[problem],
        results.role(problem),
        f"{reference.latency_ms:.6g}",
        reference.origin,
        describe_bound(results, problem),
        LEFT_OUT if reference.trivial else "yes",
        *([elsewhere] if results.scored_elsewhere else []),
    ]


def describe_bound(results: StudyResults, problem: str) -> str:
    """The lower bound as a share of the lowest latency, or that this one is optimal."""
    known = results.known.get(problem)
    if known is not None and known.optimum_ms is not None:
        return "optimal"
    if known is None or not known.bound_ms:
        return "-"
    return f"{known.bound_ms / results.score_references[problem].latency_ms:.3f}"


def describe_roles(study: Study, results: StudyResults) -> str:
    """On which problems agents are trained and settings are chosen, as far as the study says."""
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
    """The entries of a role in one line."""
    return ", ".join(
        f"{entry['model']} on {describe_devices(entry['devices'])}"
        if isinstance(entry, Mapping)
        else str(entry)
        for entry in entries
    )
