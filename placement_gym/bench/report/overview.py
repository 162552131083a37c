"""The agents over several problems: a line each, the best first, and one sentence on them."""

from __future__ import annotations

import numpy as np

from placement_gym.backends import YES
from placement_gym.bench.report.document import format_table
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.stats import Estimate, bootstrap, probability_of_improvement
from placement_gym.bench.report.wording import summarize_effort

FLOORS = ("random-blocks", "hill-climb", "annealing", "search", "greedy")
"""Agents that need no learning; the best of them is what learning has to beat."""
MAX_EQUAL_DIFFERENCE = 5e-4
"""Difference of mean scores that are printed alike."""


def summarize_agents(results: StudyResults) -> str:
    """A table with a line for each agent over all problems of the results."""
    return format_table([summarize_agent(results, agent) for agent in results.ranking])


def summarize_agent(results: StudyResults, agent: str) -> dict[str, str]:
    """The line of an agent."""
    rows = results.rows_of(agent)
    line = {
        "agent": agent,
        "mean": format_mean(results, agent),
        "IQM": format_iqm(results, agent),
        "greedy mean": format_mean(results, agent, "greedy_latency_ms"),
        "greedy IQM": format_greedy_iqm(results, agent),
        "better than the floor": format_chance(results, agent),
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
    """The score of what is predicted after learning, and how often that is infeasible."""
    scores = results.scores(agent, "greedy_latency_ms")
    has_score = results.scores(agent) > 0
    infeasible = int((scores[has_score] == 0).sum())
    note = f" ({infeasible} of {has_score.sum()} infeasible)" if infeasible else ""
    return format_iqm(results, agent, "greedy_latency_ms") + note


def format_chance(results: StudyResults, agent: str) -> str:
    """Format how often a run beats one of the floor; nothing for the floor itself."""
    floor = choose_floor(results)
    if floor is None or floor == agent:
        return "-"
    return format_estimate(estimate_chance(results, agent, floor), 2)


def estimate_chance(results: StudyResults, agent: str, rival: str) -> Estimate:
    """How often a run of an agent beats one of a rival."""
    return bootstrap(probability_of_improvement, results.scores(agent), results.scores(rival))


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


def summarize_study(results: StudyResults, role: str) -> str:
    """The answer of a study, for readers who read one sentence.

    Args:
        results: On the problems of a role that averages are over.
        role: It.
    """
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
    """State how many agents beat the best one that needs no learning, beyond chance."""
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
    """Count the problems with a run that beats the best single device, where one may run it."""
    unsplit = {p for p in results.problems if not results.known_of(p).one_device_holds_the_model}
    won = {row["problem"] for row in results.rows if row["beats_best_single"] == YES} - unsplit
    n = len(results.problems)
    if n == len(unsplit):
        return f"No single device holds {'the model' if n == 1 else 'any of the models'}."
    if n == 1:
        verb = "beats" if won else "does not beat"
        return f"Splitting the model {verb} the best single device."
    remark = f"; no single device holds the model of {len(unsplit)}" if unsplit else ""
    wins = len(won) or "none"
    return f"Splitting the model beats the best single device on {wins} of them{remark}."
