"""How far searches come in few evaluations where the costs that they know are wrong.

    python benchmarks/wrong_profile.py --problems 20 --rows rows.jsonl

Generated problems under a serial schedule. Agents know a profile in which each unit's time on each
device, each device and each link is off by a factor of its own, lognormal with the given spread
(twice as wide for links); evaluations are true, and exact. Scores are relative to the fastest
placement of any row; one is that of a search which knows the true costs.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import sem

from placement_gym.backends.profiled import ProfiledBackend
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.costs.table import CostTable
from placement_gym.entry_points import SimulatedEnv
from placement_gym.env import DevicePlacementEnv
from placement_gym.graph.families.problems import SEEDS, make_problem

TRUE_COSTS, SURE_OF = "search, true costs", 300
"""What scores are relative to, if nothing is faster, and its evaluations."""
ARMS = {
    "milp": AgentSpec("milp"),
    "random-blocks": AgentSpec("random-blocks"),
    "annealing": AgentSpec("annealing"),
    "search": AgentSpec("search"),
}
SOLVERS = ("milp",)
"""Of these, those that answer once."""
Row = dict[str, Any]


class Profiled:
    """A problem whose costs are known by a profile that is wrong.

    Args:
        seed: Of the problem, and of what is wrong.
        spread: Standard deviation of the logarithms of factors.
    """

    def __init__(self, seed: int, spread: float) -> None:
        drawn = make_problem(seed).env_kwargs()
        kwargs = {name: drawn[name] for name in ("model", "devices", "granularity")}
        self.true = SimulatedEnv(**kwargs, schedule="serial", observe_graph=False)
        self.profile = draw_profile(self.true.cost_table(), seed, spread)

    def make_env(self) -> DevicePlacementEnv:
        """An environment that repairs placements and does not know the true costs."""
        backend = ProfiledBackend(self.true.backend, self.profile)
        return DevicePlacementEnv(backend, observe_graph=False, repair=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--split", default="test", choices=SEEDS, help="(%(default)s)")
    parser.add_argument("--spreads", default="0,0.2,0.5", help="(%(default)s)")
    parser.add_argument("--budgets", default="20,50", help="(%(default)s)")
    parser.add_argument("--rows", type=Path, required=True, help="file of rows, continued")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in options.rows.open()] if options.rows.exists() else []
    done = {(row["problem"], row["spread"]) for row in rows}
    budgets = [int(budget) for budget in options.budgets.split(",")]
    with options.rows.open("a") as file:
        for spread in map(float, options.spreads.split(",")):
            for seed in list(SEEDS[options.split])[: options.problems]:
                if (seed, spread) not in done:
                    rows += (new := run(seed, spread, budgets))
                    file.writelines(json.dumps(row) + "\n" for row in new)
                    file.flush()
    Console(width=120).print(make_table(rows))


def draw_profile(costs: CostTable, seed: int, spread: float) -> CostTable:
    """Costs that are off by factors."""
    rng = np.random.default_rng(seed)
    shape = costs.operator_ms.shape
    times = np.exp(rng.normal(0.0, spread, shape) + rng.normal(0.0, spread, shape[1]))
    drawn = rng.normal(0.0, 2.0 * spread, (shape[1], shape[1]))
    links = np.exp((drawn + drawn.T) / 2.0)
    return replace(
        costs,
        operator_ms=costs.operator_ms * times,
        link_ms=costs.link_ms * links,
        link_ms_per_size=costs.link_ms_per_size * links,
    )


def run(seed: int, spread: float, budgets: list[int]) -> list[Row]:
    """The rows of one problem."""
    problem = Profiled(seed, spread)
    known = AgentSpec("search").make(problem.true, 0)
    known.learn(SURE_OF)
    reached = {(TRUE_COSTS, SURE_OF): known.best_speedup}
    for name, spec in ARMS.items():
        for budget in budgets if name not in SOLVERS else [1]:
            env = problem.make_env()
            agent = spec.make(env, 0)
            if hasattr(agent, "learn"):
                agent.learn(budget)
            (speedup,), (feasible,) = env.evaluate_batch(agent.assignment[None])[1]
            reached[name, budget] = float(speedup) if feasible else 0.0
    about = {"problem": seed, "spread": spread}
    return [
        {**about, "arm": arm, "evaluations": budget, "speedup": speedup}
        for (arm, budget), speedup in reached.items()
    ]


def make_table(rows: list[Row]) -> Table:
    """Mean scores, each with its standard error over problems."""
    best: dict[Any, float] = defaultdict(float)
    for row in rows:
        case = row["problem"], row["spread"]
        best[case] = max(best[case], row["speedup"])
    scores = defaultdict(list)
    for row in rows:
        score = row["speedup"] / best[row["problem"], row["spread"]]
        scores[row["arm"], row["evaluations"], row["spread"]].append(score)
    spreads = sorted({row["spread"] for row in rows})
    table = Table("agent", "evaluations", *(f"spread {spread:g}" for spread in spreads))
    for arm, budget in sorted({key[:2] for key in scores}):
        cells = (scores[arm, budget, spread] for spread in spreads)
        table.add_row(arm, str(budget), *(f"{np.mean(c):.3f} +- {sem(c):.3f}" for c in cells))
    return table


if __name__ == "__main__":
    main()
