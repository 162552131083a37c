"""Two folders of results side by side: the same agents on the same problems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from placement_gym.base.errors import UserError
from placement_gym.base.texts import format_ms
from placement_gym.bench.report.document import Block, Heading, Table, Text
from placement_gym.bench.report.drift import correct_drift
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.run.rows import Json, load_runs
from placement_gym.bench.study.spec import Study

EQUAL = 1e-3
"""Latencies whose ratio differs from 1 by less are called equal."""
Medians = dict[tuple[str, str], float]


def compare_folders(results: StudyResults, study: Study, other: str | Path) -> list[Block]:
    """Tables that compare the latencies of a study with those in another folder.

    Args:
        results: Of the study.
        study: Its labels name the agents of both folders.
        other: Folder with results of some of its agents on some of its problems.

    Raises:
        UserError: The other folder has no results, or no agent and problem of the study.
    """
    rows = load_runs(Path(other))
    if not rows:
        raise UserError(f"{other} has no results to compare with")
    # Both sides are prepared in the same way: corrected for drift, labels of this study.
    rows = [row | {"label": study.label(row)} for row in correct_drift(rows)]
    here, there = median_latencies(results.rows), median_latencies(rows)
    both = [pair for pair in here if pair in there]
    if not both:
        raise UserError(
            f"{other} has no agent on a problem of this study: name a folder of the same study"
        )
    # A geometric mean needs finite latencies: what failed on a side is counted instead.
    ended = [pair for pair in both if np.isfinite(here[pair]) and np.isfinite(there[pair])]
    lines = [
        {
            "problem": results.names[problem],
            "agent": agent,
            "ms there": format_ms(there[agent, problem]),
            "ms here": format_ms(here[agent, problem]),
            "ratio": f"{there[agent, problem] / here[agent, problem]:.4f}",
        }
        for agent, problem in ended
    ]
    failures = [{pair for pair in both if np.isinf(side[pair])} for side in (here, there)]
    agents = [agent for agent in results.ranking if any(agent == one for one, _ in both)]
    lines_of_agents = [compare_agent(agent, here, there, ended, failures) for agent in agents]
    return [
        Heading(f"Compared with {other}"),
        Table.of(lines_of_agents),
        Text(
            "ratio: median latency there divided by the one here, geometric mean over the problems "
            "on which both ended; above 1 is faster here. Of measured latencies it includes what "
            "changed on the machine. An agent has failed on a problem if all of its runs have."
        ),
        Table.of(lines),
    ]


def median_latencies(rows: Sequence[Json]) -> Medians:
    """The median latency of each label on each problem, inf if all runs failed."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        found[row["label"], row["problem"]].append(row["latency_ms"] or np.inf)
    return {
        pair: float(np.median([ms for ms in values if np.isfinite(ms)] or [np.inf]))
        for pair, values in found.items()
    }


def compare_agent(
    agent: str,
    here: Medians,
    there: Medians,
    ended: Sequence[tuple[str, str]],
    failures: Sequence[set[tuple[str, str]]],
) -> dict[str, str]:
    """The line of an agent."""
    mine = [pair for pair in ended if pair[0] == agent]
    ratios = np.array([there[pair] / here[pair] for pair in mine])
    equal = np.abs(ratios - 1.0) < EQUAL
    failed_here, failed_there = (sum(pair[0] == agent for pair in side) for side in failures)
    return {
        "agent": agent,
        "problems": str(len(mine)),
        "ratio": f"{np.exp(np.log(ratios).mean()):.4f}" if len(mine) else "-",
        "faster here": str((~equal & (ratios > 1)).sum()),
        "equal": str(equal.sum()),
        "slower here": str((~equal & (ratios < 1)).sum()),
        "failed here": str(failed_here),
        "failed there": str(failed_there),
    }
