"""HSDAG's Table 2 on graphs of the size of its Table 1.

    python benchmarks/hsdag.py run --rows rows.jsonl        # runs what has no row yet
    python benchmarks/hsdag.py parts --rows parts-rows.jsonl --budget 500
    python benchmarks/hsdag.py statistics

``hsdag_tables.py`` has the tables of rows. Devices are ``hsdag-paper``, whose single-device
latencies are the published ones. Learned agents and annealing begin with random placements.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Row, combine, make_env, make_parser, run_missing
from hsdag_tables import (
    ANNEALING,
    GROUPS,
    HSDAG,
    PLACETO,
    RL,
    RNN,
    SINGLES,
    SMALLER,
    WHOLE,
    shorten,
)
from learning import SMALL, learn_in
from summaries import print_table

from agents.hsdag.networks import PAPER_FEATURES
from placement_gym.bench.run import AgentSpec
from placement_gym.envs import DevicePlacementEnv
from placement_gym.solvers import minimum_cut

TABLE_1 = {"inception-fp16": (728, 764), "resnet-fp16": (396, 411), "bert-8-fp16": (1009, 1071)}
"""Nodes and edges that the paper states."""
DEVICES = "hsdag-paper"
ARMS: dict[str, AgentSpec] = {
    HSDAG: AgentSpec("hsdag", {"preset": "paper"}),
    RL: AgentSpec("hsdag"),
    SINGLES: AgentSpec("hsdag", {"policy": {"depth": 0}}),
    GROUPS: AgentSpec(GROUPS),
    ANNEALING: AgentSpec("annealing", {"start": "random"}),
    PLACETO: AgentSpec("placeto", {"preset": "paper"}),
    RNN: AgentSpec("rnn", {"preset": "paper"}),
}
TOO_LARGE = (RNN, "bert-8-fp16")
"""What the paper could not run either; it takes half an hour here."""
PARTS: dict[str, dict[str, Any]] = {
    "rl": {},
    "without gate": {"gate": False},
    "groups left to the scores": {"refine": 0.0},
    "all dominant edges kept, one level": {"groups": 0.0, "depth": 1},
    "without grouping": {"depth": 0},
    "without devices' times": {"features": PAPER_FEATURES, "cost_weight": 0.0},
}
"""Options of the preset ``rl`` that leave out a part of it."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--rows", type=Path, default=Path("hsdag.jsonl"), help="%(default)s")
    parser.add_argument("--arms", default=";".join(ARMS), help="separated by ; (%(default)s)")
    parser.add_argument("--granularity", default=SMALLER, choices=(SMALLER, WHOLE), help="of units")
    parser.add_argument("--budget", type=int, default=2000, help="placements (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    COMMANDS[options.command](options)


def load(model: str, granularity: str) -> DevicePlacementEnv:
    """The environment of a model's raw graph: every node of its fp16 IR."""
    return make_env(
        model, devices=DEVICES, graph="raw", granularity=granularity, observe_graph=False
    )


def run_all(options: argparse.Namespace) -> None:
    """Do the runs that the file lacks, seed by seed."""
    jobs = combine(
        seed=range(options.seeds),
        model=TABLE_1,
        granularity=[options.granularity],
        arm=options.arms.split(";"),
        budget=[options.budget],
    )
    fitting = (job for job in jobs if (job["arm"], job["model"]) != TOO_LARGE)
    run_missing(options.rows, fitting, run)


def run(seed: int, model: str, granularity: str, arm: str, budget: int) -> Row:
    """One run, with the latencies of the single devices and of the optimum."""
    env = load(model, granularity)
    row = learn_in(env, ARMS[arm], seed, budget)
    print(f"{model}, {granularity}, {arm}, {seed}: {row['best_ms']}, {row['cpu_s']} s", flush=True)
    return row | {"single_ms": find_single_ms(env), "optimum_ms": find_optimum_ms(env)}


def find_single_ms(env: DevicePlacementEnv) -> list[float]:
    """Latency of each device alone, in ms."""
    return [float(one.latency_ms) for one in env.singles.measurements if one is not None]


def find_optimum_ms(env: DevicePlacementEnv) -> float:
    """Latency of the minimum cut, which is optimal on two devices without limits, in ms."""
    found = minimum_cut(env.problem.units, env.cost_table())
    return float(env.backend.evaluate(found.assignment).latency_ms)


def run_parts(options: argparse.Namespace) -> None:
    """Do the runs of parts that the file lacks, on folded graphs."""
    jobs = combine(seed=range(options.seeds), problem=SMALL, part=PARTS, budget=[options.budget])
    run_missing(options.rows, jobs, run_part)


def run_part(seed: int, problem: str, part: str, budget: int) -> Row:
    """One run of a variant."""
    env = make_env(problem, devices=DEVICES, observe_graph=False)
    agent = AgentSpec("hsdag", {"policy": PARTS[part]})
    return learn_in(env, agent, seed, budget) | {"optimum_ms": find_optimum_ms(env)}


def print_statistics(options: argparse.Namespace) -> None:
    """Print the sizes of the graphs, and what share of the twin's time weight converts take."""
    lines = []
    for model, (nodes, edges) in TABLE_1.items():
        env = load(model, SMALLER)
        plain = shorten(model)
        forms = {
            "co-located": env,
            "without coarsening": load(model, WHOLE),
            "fp32": load(plain, SMALLER),
            "fp32, folded": make_env(plain, devices=DEVICES),
            "fp32, folded, without coarsening": make_env(plain, devices=DEVICES, granularity=WHOLE),
        }
        graph, table = env.problem.units.graph, env.cost_table()
        converts = np.array([kind == "Convert" for kind in graph.types])
        share = 100.0 * table.operator_ms[converts].sum(axis=0) / table.operator_ms.sum(axis=0)
        lines.append(
            {
                "model": shorten(model),
                "nodes": len(graph),
                "published nodes": nodes,
                "edges": graph.edge_index.shape[1],
                "published edges": edges,
                "units": env.problem.n_units,
                "converts, % of CPU's and GPU's time": " and ".join(f"{one:.0f}" for one in share),
                **{
                    f"optimum, {name}": f"{find_optimum_ms(one):.4g}" for name, one in forms.items()
                },
            }
        )
    print_table(lines)


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "run": run_all,
    "parts": run_parts,
    "statistics": print_statistics,
}

if __name__ == "__main__":
    main()
