"""Published agents on generated problems with little memory, compared with classic placers.

    python benchmarks/published.py --rows FILE --budget 500

It appends a line a run to FILE and does what is missing in it; ``--arms`` limits what is run now.
``--budget "3 s"`` runs every agent for three CPU seconds in place of evaluations. All placements
are repaired.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from common import (
    Meter,
    Row,
    best_known_ms,
    combine,
    describe_env,
    describe_run,
    make_env,
    make_parser,
    run_missing,
    search,
)

from placement_gym.bench.run import AgentSpec
from placement_gym.envs import DevicePlacementEnv
from placement_gym.graph.families.problems import make_problem

ENDLESS, TRIAL = 10**9, 100
"""Evaluations of a run that ends by its seconds, and of one that only compiles what it needs."""
CLASSIC = ("greedy", "heft", "critical-path", "random-blocks", "hill-climb", "search")
LEARNED = ("rnn", "hdp", "post", "placeto", "doppler", "gdp", "hsdag", "graph-groups")
PUBLISHED = ("rnn", "hdp", "post", "placeto", "gdp", "hsdag")
"""Those with a form that is the paper's and can be run here; DOPPLER's takes 4,000 episodes."""
ARMS: dict[str, AgentSpec] = {
    **{name: AgentSpec(name) for name in (*CLASSIC, *LEARNED)},
    **{f"{name}, paper": AgentSpec(name, {"preset": "paper"}) for name in PUBLISHED},
    "hill-climb, quick": AgentSpec("hill-climb", {"start": "quick"}),
}
"""Agents by the label of their runs: as they are, and in the paper's form."""
TRIED = "layered-81-seed57"
"""A problem of validation, on which code is compiled before time counts."""
PROBLEMS = (
    "recurrent-53-seed10005",
    "series-parallel-46-seed10021",
    "series-parallel-49-seed10030",
    "branching-91-seed10034",
    "attention-77-seed10008",
    "attention-109-seed10013",
    "attention-82-seed10035",
)
"""Family, size and seed of graphs with list or event schedules, limits, and three devices or more,
on which the best heuristic is at least 5 % behind a search."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, default=Path("published.jsonl"), help="%(default)s")
    parser.add_argument("--arms", default=";".join(ARMS), help="labels, separated by ; (all)")
    parser.add_argument("--budget", default="500", help="evaluations, or '3 s' (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="of each arm (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    jobs = combine(
        seed=range(options.seeds),
        problem=PROBLEMS,
        arm=options.arms.split(";"),
        budget=[int(options.budget) if options.budget.isdigit() else options.budget],
    )
    run_missing(options.rows, jobs, run)


def run(seed: int, problem: str, arm: str, budget: int | str) -> Row:
    """The best latency that an agent has evaluated within its budget."""
    if isinstance(budget, str):
        warm_up(arm)
        limits: dict[str, Any] = {"cpu_seconds": (float(budget.split()[0]),)}
    else:
        limits = {"evaluations": (budget,)}
    env = make_problem_env(problem)
    meter = Meter(env.backend, **limits)
    search(env, meter, ARMS[arm], seed, budget if isinstance(budget, int) else ENDLESS)
    row = describe_run(describe_env(env), ARMS[arm], seed, budget, meter)
    return row | {"best_known_ms": best_known_ms(env)}


@cache
def warm_up(arm: str) -> None:
    """Compile what an agent needs before time counts."""
    env = make_problem_env(TRIED)
    search(env, Meter(env.backend, [TRIAL]), ARMS[arm], 0, TRIAL)


def make_problem_env(problem: str) -> DevicePlacementEnv:
    """The environment of a problem, with repair, on the devices that its seed draws."""
    kwargs = make_problem(int(problem.rpartition("-seed")[2])).env_kwargs()
    return make_env(**kwargs, observe_graph=False, repair=True)


if __name__ == "__main__":
    main()
