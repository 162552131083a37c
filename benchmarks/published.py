"""Published agents on generated problems with little memory, compared with classic placers.

    python benchmarks/published.py --rows FILE

Every arm runs for 500 evaluations, and all placements are repaired. A score is the best known
latency over the best of a run. Differences to hill climbing are over runs of the same problem and
seed, with bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from common import Row, best_known_ms, combine, make_env, run_agent, run_benchmark
from summaries import Tables, compare_arms, group_by, number

from placement_gym.bench.run import AgentSpec
from placement_gym.graph.families.problems import make_problem

EVALUATIONS, FLOOR = 500, "hill-climb"
CLASSIC = ("greedy", "heft", "critical-path", "random-blocks", "hill-climb", "search")
LEARNED = ("rnn", "hdp", "post", "placeto", "doppler", "gdp", "hsdag", "graph-groups")
PUBLISHED = ("rnn", "hdp", "post", "placeto", "gdp", "hsdag")
"""Agents that run here in the paper's form; DOPPLER's takes 4,000 episodes."""
ARMS: dict[str, AgentSpec] = {
    **{name: AgentSpec(name) for name in (*CLASSIC, *LEARNED)},
    **{f"{name}, paper": AgentSpec(name, {"preset": "paper"}) for name in PUBLISHED},
    "hill-climb, quick": AgentSpec("hill-climb", {"start": "quick"}),
}
OF_HSDAG = "Duan 2024"
"""HSDAG's paper in ``published.csv``."""
PROBLEMS = (
    "recurrent-53-seed10005",
    "series-parallel-46-seed10021",
    "series-parallel-49-seed10030",
    "branching-91-seed10034",
    "attention-77-seed10008",
    "attention-109-seed10013",
    "attention-82-seed10035",
)
"""Family, size and seed of graphs with list or event schedules, limits and at least three devices,
on which the best heuristic is at least 5 % behind a search."""


def list_jobs() -> Iterator[Row]:
    return combine(seed=range(3), problem=PROBLEMS, arm=ARMS, budget=[EVALUATIONS])


def run(seed: int, problem: str, arm: str, budget: int) -> Row:
    kwargs = make_problem(int(problem.rpartition("-seed")[2])).env_kwargs()
    env = make_env(**kwargs, observe_graph=False, repair=True)
    return run_agent(env, ARMS[arm], seed, budget) | {"best_known_ms": best_known_ms(env)}


def list_arms(rows: Sequence[Row]) -> list[Row]:
    """The arms, the best first, and how far each is ahead of hill climbing."""
    best = {
        problem: min(min(row["latency_ms"], row["best_known_ms"] or np.inf) for row in mine)
        for (problem,), mine in group_by(rows, "problem").items()
    }
    runs = [
        row | {"score": best[row["problem"]] / row["latency_ms"]}
        for row in rows
        if row["budget"] == EVALUATIONS
    ]
    columns = {
        "CPU s": number("cpu_s", ".1f"),
        "evaluations": number("evaluations", ",.0f", np.median),
    }
    return compare_arms(runs, FLOOR, columns)


def list_claims(lines: Sequence[Row]) -> list[Row]:
    """Claims of papers other than latencies, and our values."""
    return [
        {
            "paper": line["paper"],
            "claim": line["what"],
            "graphs": line["model"],
            "published": f"{line['published']} {line['unit']}",
            "here": f"{float(line['here']):.3g} {line['unit']}",
        }
        for line in lines
        if line["paper"] != OF_HSDAG and line["unit"] != "ms"
    ]


TABLES: Tables = {"evaluations": list_arms}


if __name__ == "__main__":
    run_benchmark(__doc__, {"all": (list_jobs, run)})
