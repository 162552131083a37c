"""The problems of a study: what each is for, and what its scores are relative to."""

from __future__ import annotations

from placement_gym.bench.report.document import Table
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.study.roles import TEST, TRAIN, VALIDATION
from placement_gym.bench.study.spec import Study

COLUMNS = ("problem", "role", "1 is, ms", "found by", "bound / ms", "averaged")
LEFT_OUT = "no: trivial, one device is as fast"


def list_problems(results: StudyResults) -> Table:
    """A line for each problem."""
    columns = [*COLUMNS, *(["1 elsewhere is, ms"] if results.scored_elsewhere else [])]
    return Table(columns, [describe_problem(results, problem) for problem in results.problems])


def describe_problem(results: StudyResults, problem: str) -> list[str]:
    """The line of a problem."""
    yardstick = results.yardsticks[problem]
    elsewhere = f"{results.least_elsewhere_ms[problem]:.6g}"
    return [
        results.names[problem],
        results.role(problem),
        f"{yardstick.latency_ms:.6g}",
        yardstick.origin,
        describe_bound(results, problem),
        LEFT_OUT if yardstick.trivial else f"with {results.role(problem)} problems",
        *([elsewhere] if results.scored_elsewhere else []),
    ]


def describe_bound(results: StudyResults, problem: str) -> str:
    """The lower bound as a share of the lowest latency, or that this one is optimal."""
    known = results.known.get(problem)
    if known is None or not known.bound_ms:
        return "-"
    if known.optimum_ms:
        return "optimal"
    return f"{known.bound_ms / results.yardsticks[problem].latency_ms:.3f}"


def describe_roles(study: Study, results: StudyResults) -> str:
    """On which problems settings were chosen, as far as the study says."""
    named = [results.names[problem] for problem in results.problems]
    chosen = [
        results.names[problem]
        for problem in results.problems
        if results.role(problem) == VALIDATION
    ]
    trained = [str(entry) for entry in study.roles.get(TRAIN, ())]
    parts = [f"Agents are trained on {', '.join(trained)}."] if trained else []
    if not chosen:
        unsaid = "The study names no validation problem: settings may have been chosen on any."
        return " ".join([*parts, unsaid])
    parts.append(f"Settings are chosen on {', '.join(chosen)}.")
    if len(chosen) == len(named):
        parts.append("There is no test problem: what follows says nothing about other problems.")
    else:
        parts.append(f"Averages are over {TEST} problems, on which nothing is chosen.")
    return " ".join(parts)
