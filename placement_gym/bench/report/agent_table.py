"""The agents over several problems, a line each, the best first."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from placement_gym.bench.report.document import Table
from placement_gym.bench.report.formats import format_infeasible
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.stats import Estimate, bootstrap, probability_of_improvement

FLOORS = ("random-blocks", "hill-climb", "annealing", "search")
"""Agents that need no learning; the best of them is what learning has to beat."""


class Column(NamedTuple):
    """A column of the table: its name, and what it says of an agent."""

    name: str
    describe: Callable[[StudyResults, str], str]


def summarize_agents(results: StudyResults) -> Table:
    """A line for each agent over all problems of the results."""
    columns = [*COLUMNS, *(ELSEWHERE if results.scored_elsewhere else ())]
    lines = [[column.describe(results, agent) for column in columns] for agent in results.ranking]
    return Table([column.name for column in columns], lines)


def format_mean(results: StudyResults, agent: str, field: str = "latency_ms") -> str:
    mean = results.means[agent, field]
    return "-" if np.isnan(mean) else f"{mean:.3f}"


def format_iqm(results: StudyResults, agent: str, field: str = "latency_ms") -> str:
    return format_estimate(results.estimates[agent, field])


def format_greedy(results: StudyResults, agent: str) -> str:
    """The score of what is predicted after learning, and how often that is infeasible."""
    scores = results.scores(agent, "greedy_latency_ms")
    ended = results.scores(agent) > 0
    infeasible = int((scores[ended] == 0).sum())
    note = f" ({infeasible} of {ended.sum()} infeasible)" if infeasible else ""
    return format_iqm(results, agent, "greedy_latency_ms") + note


def format_chance(results: StudyResults, agent: str) -> str:
    """Format how often a run beats one of the floor; nothing for the floor itself."""
    floor = choose_floor(results)
    if floor is None or floor == agent:
        return "-"
    scores = results.scores(agent), results.scores(floor)
    return format_estimate(bootstrap(probability_of_improvement, *scores), 2)


def count_failed(results: StudyResults, agent: str) -> str:
    rows = results.rows_of(agent)
    return f"{sum(not row['latency_ms'] for row in rows)} of {len(rows)}"


def format_median(results: StudyResults, agent: str, field: str, digits: int) -> str:
    return f"{np.median([row[field] for row in results.rows_of(agent)]):.{digits}f}"


COLUMNS = (
    Column("agent", lambda results, agent: agent),
    Column("mean", format_mean),
    Column("IQM", format_iqm),
    Column("greedy mean", lambda results, agent: format_mean(results, agent, "greedy_latency_ms")),
    Column("greedy IQM", format_greedy),
    Column("better than the floor", format_chance),
    Column("failed", count_failed),
    Column("evals", lambda results, agent: format_median(results, agent, "evaluations", 0)),
    Column("infeas.", lambda results, agent: format_infeasible(results.rows_of(agent))),
    Column("wall s", lambda results, agent: format_median(results, agent, "wall_s", 2)),
)
ELSEWHERE = (
    Column("mean elsewhere", lambda results, agent: format_mean(results, agent, "scored_ms")),
    Column("IQM elsewhere", lambda results, agent: format_iqm(results, agent, "scored_ms")),
)


def choose_floor(results: StudyResults) -> str | None:
    """The label of the best agent of ``FLOORS``, by its mean over problems."""
    floors = {row["label"] for row in results.rows if row["agent"] in FLOORS and row["latency_ms"]}
    return next((agent for agent in results.ranking if agent in floors), None)


def format_estimate(estimate: Estimate, digits: int = 3) -> str:
    """A number with its interval."""
    value, low, high = estimate
    if np.isnan(value):
        return "-"
    if low == high:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
