"""One sentence on a study: who places best, and whether learning or splitting pays."""

from __future__ import annotations

from placement_gym.bench.report.agent_table import choose_floor, format_estimate
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.stats import bootstrap, probability_of_improvement
from placement_gym.bench.run.verdict import YES

EQUAL = 5e-4
"""Mean scores that are written alike."""


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
    best = [agent for agent, mean in zip(ranked, means, strict=True) if mean > means[0] - EQUAL]
    iqm = format_estimate(results.estimates[ranked[0], "latency_ms"])
    alike = f" (as do {len(best) - 1} others)" if len(best) > 2 else ""
    alike = f" (as does {best[1]})" if len(best) == 2 else alike
    n = len(results.problems)
    over = f"the {role} problem" if n == 1 else f"{n} {role} problems"
    return (
        f"Over {over}, {best[0]} places best{alike}: mean score {means[0]:.3f}, interquartile mean "
        f"{iqm}, where 1 is the best known. {compare_with_floor(results, ranked)}"
        f"{count_split_wins(results)}"
    )


def compare_with_floor(results: StudyResults, ranked: list[str]) -> str:
    """State how many agents beat the best one that needs no learning, beyond chance."""
    floor = choose_floor(results)
    others = [agent for agent in ranked if agent != floor]
    if floor is None or not others:
        return ""
    better = [
        agent
        for agent in others
        if bootstrap(probability_of_improvement, results.scores(agent), results.scores(floor)).low
        > 0.5
    ]
    named = f": {', '.join(better)}" if 0 < len(better) <= 3 else ""
    return (
        f"{len(better) or 'None'} of the {len(others)} other agents "
        f"{'beats' if len(better) == 1 else 'beat'} the floor, {floor}, in most runs{named}. "
    )


def count_split_wins(results: StudyResults) -> str:
    """On how many problems a run is faster than the best single device, where one may run it."""
    known = results.known
    none = {
        problem
        for problem in results.problems
        if problem in known and not known[problem].one_device_holds_the_model
    }
    won = {row["problem"] for row in results.rows if row["beats_best_single"] == YES} - none
    n = len(results.problems)
    if n == len(none):
        return f"No single device holds {'the model' if n == 1 else 'any of the models'}."
    if n == 1:
        verb = "beats" if won else "does not beat"
        return f"Splitting the model {verb} the best single device."
    others = f"; no single device holds the model of {len(none)}" if none else ""
    wins = len(won) or "none"
    return f"Splitting the model beats the best single device on {wins} of them{others}."
