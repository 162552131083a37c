"""HSDAG: the placements it finds within 500 evaluations, and its time per placement.

    python benchmarks/hsdag.py --parts speed,twins
    python benchmarks/hsdag.py --parts limited --data DIR

DIR holds the inputs of dnn-partitioning. Times include policy, SB3 and environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from classic import LIMITED, WORKLOADS, best_known_ms, make_workload_env, shorten
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import gmean

from agents.common.reinforce import REINFORCE
from agents.hsdag.agent import make
from placement_gym.bench.report.optimum import find_optimum_or_bound
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend, BudgetReached
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.episode import play_episode

BUDGET = 500
PUBLISHED_S = {"inception": 0.0105, "resnet": 0.00766, "bert-8": 0.00267}
"""HSDAG's latencies in seconds (Table 2)."""
NO_PRIOR = {"policy": {"cost_weight": 0.0}}
AGENTS = {
    "hsdag": AgentSpec("hsdag", {}, make),
    "hsdag, no cost prior": AgentSpec("hsdag", NO_PRIOR, make),
    "hsdag, paper preset": AgentSpec("hsdag", {"preset": "paper"}, make),
    "random-blocks": AgentSpec("random-blocks"),
    "annealing": AgentSpec("annealing"),
}
SPEED = {
    "resnet": ({"model": "resnet"}, 4.0, 40.0),
    "bert-8": ({"model": "bert-8"}, 8.0, 105.0),
    "resnet-fp16 raw": ({"model": "resnet-fp16", "graph": "raw"}, 7.0, 40.0),
    "bert-fp16 raw": ({"model": "bert-fp16", "graph": "raw"}, 15.0, 105.0),
}
"""Environment, ms a placement that we ask of ourselves, and ms of the published code."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--parts", default="speed,twins", help="comma-separated: speed, twins, limited"
    )
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, Callable[[argparse.Namespace], Table]] = {
        "speed": time_placements,
        "twins": compare_on_twins,
        "limited": compare_under_limits,
    }
    for part in options.parts.split(","):
        Console(width=170).print(parts[part](options))


def time_placements(options: argparse.Namespace) -> Table:
    """Time learning on one thread, in the paper's episodes of 20 steps and as it is compared."""
    table = Table("graph", "units", "form", "ms a placement", "target", "published code", "ratio")
    for name, (kwargs, target_ms, published_ms) in SPEED.items():
        env = make_env(**kwargs)
        agent = make(env, 0, preset="paper")
        ms = time_placement_ms(agent, 200)
        table.add_row(
            name, str(env.problem.n_units), "paper's episodes", f"{ms:.2f}", f"{target_ms:g}",
            f"{published_ms:g}", f"{published_ms / ms:.0f} x",
        )  # fmt: skip
        ms = time_placement_ms(make(env, 0), 200)
        table.add_row(name, str(env.problem.n_units), "ours", f"{ms:.2f}", "-", "-", "-")
    if options.data is not None:
        path = options.data / "latency-inputs" / "OperatorGraphs" / "bert_l-12_inference.json"
        env = make_workload_env(path, granularity="op")
        one_forward = make(env, 0, n_epochs=1)
        ms = time_placement_ms(one_forward, 2000)
        seconds = f"{ms:.2f} ({2 * ms:.2f} s for 100 updates)"
        table.add_row("bert_l-12", str(env.problem.n_units), "20 at once", seconds, "1.0", "-", "-")
    return table


def time_placement_ms(agent: REINFORCE, placements: int) -> float:
    """Time learning after a first update; returns ms of one core a placement."""
    agent.learn(agent.n_steps * agent.n_envs)
    started = process_time()
    agent.learn(placements, reset_num_timesteps=False)
    return (process_time() - started) / placements * 1e3


def compare_on_twins(options: argparse.Namespace) -> Table:
    """Compare agents on the paper's three models, on a twin calibrated to its single devices."""
    table = Table("model", "agent", "ms", "gap closed", "worst seed", "greedy", "s")
    table.title = f"hsdag-paper, {BUDGET} placements, medians of {options.seeds} seeds"
    for model, published_s in PUBLISHED_S.items():
        env = make_env(model=model, devices="hsdag-paper")
        single_ms = env.get_info()["best_single_ms"]
        optimum_ms = find_optimum_or_bound(env, [])["optimum_ms"]
        assert optimum_ms is not None

        def closed(ms: Any, single_ms: float = single_ms, least: float = optimum_ms) -> Any:
            return (single_ms - ms) / (single_ms - least)

        table.add_row(model, "optimum", f"{optimum_ms:.4g}", "1", "", "", "")
        table.add_row(
            "", "best single device = a constant placement", f"{single_ms:.4g}", "0", "", "", ""
        )
        published_ms = published_s * 1e3
        published_gap = f"{closed(published_ms):.2f}"
        table.add_row("", "published HSDAG", f"{published_ms:.4g}", published_gap, "", "", "")
        for name, agent in track(AGENTS.items(), model):
            found, greedy, seconds = np.array(
                [run_agent(env, agent, seed) for seed in range(options.seeds)]
            ).T
            table.add_row(
                "", name, f"{np.median(found):.4g}", f"{np.median(closed(found)):.2f}",
                f"{closed(found).min():.2f}", f"{np.median(closed(greedy)):.2f}",
                f"{seconds.mean():.1f}",
            )  # fmt: skip
    return table


def compare_under_limits(options: argparse.Namespace) -> Table:
    """Compare agents on published workloads with little memory, with the best known latencies."""
    names = [*map(shorten, WORKLOADS), "geometric mean", "greedy", "s"]
    table = Table("devices", "agent", *names)
    table.title = f"latency over the best known, {BUDGET} placements"
    by_rank = {"schedule": {"preset": "list", "order": "priority"}, "granularity": "op"}
    for devices in LIMITED:
        paths = [options.data / "latency-inputs" / f"{name}.json" for name in WORKLOADS]
        envs = [make_workload_env(path, devices=devices, **by_rank) for path in paths]
        known_ms = np.array([best_known_ms(env) for env in envs])
        for name, agent in track(AGENTS.items(), devices):
            runs = np.array(
                [[run_agent(env, agent, seed) for seed in range(options.seeds)] for env in envs]
            )
            ratios, greedy = (np.median(runs[:, :, part], axis=1) / known_ms for part in (0, 1))
            cells = [*ratios, gmean(ratios), gmean(greedy), runs[:, :, 2].mean()]
            table.add_row(devices, name, *(f"{cell:.3f}" for cell in cells))
    return table


def run_agent(env: DevicePlacementEnv, agent: AgentSpec, seed: int) -> tuple[float, float, float]:
    """Learn once; returns best and greedy latency in ms, and seconds.

    An infeasible placement has its penalty.
    """
    counted = BudgetedBackend(env.backend, BUDGET)
    inner, env.backend = env.backend, counted
    try:
        learner = agent.make(env, seed)
        with suppress(BudgetReached):
            learner.learn(BUDGET)
        seconds, best = counted.wall_s, counted.best(1)
        env.backend = inner
        greedy_ms = play_episode(env, learner)["latency_ms"]
    finally:
        env.backend = inner
    return inner.evaluate(best[0]).latency_ms, greedy_ms, seconds


def make_env(**kwargs: Any) -> DevicePlacementEnv:
    return placement_env(gym.make("placement_gym:DevicePlacementSim-v0", **kwargs))


if __name__ == "__main__":
    main()
