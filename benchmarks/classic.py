"""Exact and classic placers on published workloads, beside the published and best known values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import gmean

import placement_gym  # noqa: F401  registers the environments
from agents.search import Annealing
from placement_gym.bench.known.best_known import find_best_known
from placement_gym.bench.known.identity import identify
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.costs.analytic import analytic
from placement_gym.costs.workloads import Workload, make_devices
from placement_gym.devices import parse_devices
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.graph.synthetic import synthetic
from placement_gym.graph.units import group
from placement_gym.solvers.bounds import critical_path_ms, load_ms, path_ms
from placement_gym.solvers.calls import call_program, greedy_fill
from placement_gym.solvers.cuts import minimum_cut
from placement_gym.solvers.forward import Forward
from placement_gym.solvers.pipelines.pipeline import exact_pipeline, linear_pipeline

LIMITED = ("1cpu+1acc@0.5", "1cpu+2acc@0.3")
WORKLOADS = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "LayerGraphs/inceptionv3_inference",
    "OperatorGraphs/bert_l-3_inference",
    "OperatorGraphs/resnet50_inference",
)
PIPELINES = {
    "LayerGraphs/bert24_inference": (17.7899, 17.7899),
    "LayerGraphs/bert24_training": (41.7458, 41.7458),
    "LayerGraphs/resnet50_inference": (33.7747, 33.7747),
    "LayerGraphs/resnet50_training": (78.6318, 78.6498),
    "OperatorGraphs/bert_l-3_inference": (27.9186, 27.9186),
    "OperatorGraphs/bert_l-3_training": (65.3031, 65.3031),
    "OperatorGraphs/resnet50_inference": (124.3488, 124.349),
}
"""Least largest load in ms by DP and DPL (Tarnawski et al. 2020)."""
CALLS = {
    "LayerGraphs/bert24_inference": (100.219, 100.2184),
    "OperatorGraphs/bert_l-3_inference": (416.204, 408.4747),
    "OperatorGraphs/resnet50_inference": (839.536, 719.908),
}
"""Latency in ms of greedy filling, and the best known."""
LONG = "latency-inputs/OperatorGraphs/bert_l-12_inference"
BOUNDS = {"critical path": critical_path_ms, "path": path_ms, "load": load_ms}
ONCE = ("heft", "critical-path", "m-topo", "m-etf", "milp")
SEARCHES = (
    AgentSpec("random-blocks"),
    AgentSpec("hill-climb"),
    AgentSpec("hill-climb", {"start": "random"}),
    AgentSpec("annealing"),
    AgentSpec("genetic"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="inputs of dnn-partitioning")
    parser.add_argument("--parts", default="cuts,pipelines,calls,limited", help="%(default)s")
    parser.add_argument("--budgets", default="500,10000", help="evaluations (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="how many (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="s a program (%(default)s)")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if "cuts" in parts:
        time_cuts(options.data)
    if "pipelines" in parts:
        compare_pipelines(options.data)
    if "calls" in parts:
        compare_calls(options.data, options.time_limit)
    if "limited" in parts:
        compare_under_limits(
            options.data, [int(b) for b in options.budgets.split(",")], options.seeds
        )


def time_cuts(data: Path) -> None:
    """Time minimum cuts."""
    workload = Workload.load(data / f"{LONG}.json")
    devices = parse_devices("cpu+dgpu")
    large = synthetic("synthetic-layered-80000")
    cases = [
        (workload.units("op"), workload.costs(make_devices(1, 1))),
        (group(large, "op"), analytic(large, devices)),
    ]
    for units, costs in cases:
        seconds = [time_call(minimum_cut, units, costs)[1] for _ in range(3)]
        print(f"minimum cut of {len(units)} units: {1e3 * min(seconds):.1f} ms")


def compare_pipelines(data: Path) -> None:
    """Compare contiguous pipelines, and what annealing makes of them without contiguity."""
    table = Table("workload", "bound", "DP published", "ours", "s", "DPL published", "ours", "s")
    table.add_column("annealing 10k")
    table.title = "largest load in ms"
    for name, (dp_ms, dpl_ms) in track(PIPELINES.items(), "pipelines"):
        path = data / "throughput-inputs" / f"{name}.json"
        env = make_workload_env(path, objective="throughput")
        problem, costs = env.problem, env.cost_table()
        exact, exact_s = time_call(exact_pipeline, problem, costs)
        linear, linear_s = time_call(linear_pipeline, problem, costs)
        search = Annealing(env, 0, starts=linear[None])
        search.learn(10_000)
        found = (env.backend.evaluate(a).latency_ms for a in (exact, linear, search.assignment))
        ours, ours_linear, annealed = (f"{latency_ms:.6g}" for latency_ms in found)
        row = [f"{dp_ms:.6g}", ours, f"{exact_s:.2f}", f"{dpl_ms:.6g}", ours_linear]
        bound = f"{load_ms(problem, costs):.2f}"
        table.add_row(name, bound, *row, f"{linear_s:.3f}", annealed)
    Console(width=130).print(table)


def compare_calls(data: Path, time_limit_s: float) -> None:
    """The publication's latency: greedy filling, annealing from it, and the program from there.

    With one call of each accelerator the program proves bert_l-3 in half an hour:
    ``--parts calls --time-limit 3600``.
    """
    table = Table("workload", "greedy published", "in that order", "ours", "annealing 150k")
    for column in ("program, a call each", "bound", "proven", "s", "best known"):
        table.add_column(column)
    table.title = "latency of calls in ms"
    for name, (greedy_ms, known_ms) in track(CALLS.items(), "calls"):
        path = data / "latency-inputs" / f"{name}.json"
        env = make_workload_env(path, schedule="tarnawski-latency")
        problem, costs = env.problem, env.cost_table()
        forward = Forward.of(problem.units)
        theirs = greedy_fill(
            problem, costs, forward.order_units(forward.depth_first(from_ends=True))
        )
        ours = greedy_fill(problem, costs)
        search = Annealing(env, 0, starts=ours[None])
        search.learn(150_000)
        start = search.assignment
        solved, seconds = time_call(
            call_program, problem, costs, start, env.backend.schedule, time_limit_s
        )
        found = (theirs, ours, search.assignment, solved.assignment)
        table.add_row(
            name,
            f"{greedy_ms:.6g}",
            *(f"{env.backend.evaluate(a).latency_ms:.7g}" for a in found),
            f"{solved.bound_ms:.7g}",
            "yes" if solved.proven else "no",
            f"{seconds:.0f}",
            f"{known_ms:.7g}",
        )
    Console(width=130).print(table)


def compare_under_limits(data: Path, budgets: list[int], n_seeds: int) -> None:
    """Compare placers under little memory."""
    runs = [(AgentSpec(name), 0) for name in ONCE]
    runs += [(agent, budget) for budget in budgets for agent in SEARCHES]
    for devices in LIMITED:
        table = Table(
            "placer", "evaluations", *map(shorten, WORKLOADS), "geometric mean", "seconds"
        )
        table.title = f"{devices}, list by rank: latency over the best known (median of seeds)"
        # nodes placed one by one, as for the best known values: colour classes are not kept
        by_rank = {
            "schedule": {"preset": "list", "order": "priority"},
            "granularity": "op",
            "repair": True,
        }
        paths = [data / "latency-inputs" / f"{name}.json" for name in WORKLOADS]
        envs = [make_workload_env(path, devices=devices, **by_rank) for path in paths]
        known_ms = np.array([best_known_ms(env) for env in envs])
        for name, bound in BOUNDS.items():
            least = np.array([bound(env.problem, env.cost_table()) for env in envs]) / known_ms
            table.add_row(
                name, "bound", *(f"{ratio:.3f}" for ratio in least), f"{gmean(least):.3f}"
            )
        for agent, budget in track(runs, devices):
            seeds = range(n_seeds if budget else 1)
            found, seconds = time_call(measure_latencies, envs, agent, seeds, budget)
            ratios = np.median(found, axis=1) / known_ms
            table.add_row(
                agent.label,
                str(budget or "-"),
                *(f"{ratio:.3f}" for ratio in ratios),
                f"{gmean(ratios):.3f}",
                f"{seconds / found.size:.2f}",
            )
        Console(width=130).print(table)


def best_known_ms(env: DevicePlacementEnv) -> float:
    """The best known latency of the environment's problem; see ``placement-gym bench known``.

    Raises:
        SystemExit: There is none.
    """
    value = find_best_known(identify(env.backend))
    if value is None:
        raise SystemExit(f"no best known value of {env.problem.units.graph.model} on these devices")
    return value.latency_ms


def time_call(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Call a function; returns its result and the seconds that it took."""
    started = perf_counter()
    return function(*arguments), perf_counter() - started


def shorten(workload: str) -> str:
    kind, name = workload.split("/")
    return f"{kind.removesuffix('Graphs').lower()} {name.removesuffix('_inference')}"


def make_workload_env(path: Path, **kwargs: Any) -> DevicePlacementEnv:
    return placement_env(gym.make("DevicePlacementSim-v0", model=str(path), **kwargs))


def measure_latencies(
    envs: Sequence[DevicePlacementEnv], agent: AgentSpec, seeds: Sequence[int], budget: int
) -> np.ndarray:
    """(n_envs, n_seeds) latencies in ms; see ``measure_latency``."""
    return np.array([[measure_latency(env, agent, seed, budget) for seed in seeds] for env in envs])


def measure_latency(env: DevicePlacementEnv, agent: AgentSpec, seed: int, budget: int) -> float:
    """Latency in ms of the agent's prediction after ``budget`` evaluations; inf if infeasible."""
    placer = agent.make(env, seed)
    if budget:
        placer.learn(budget)
    observation, _ = env.reset(seed=seed)
    measurement = env.evaluate(placer.predict(observation)[0])
    return measurement.latency_ms if measurement.feasible else float("inf")


if __name__ == "__main__":
    main()
