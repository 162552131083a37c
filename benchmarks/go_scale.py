"""GO trained on 80,000 operators, beside searches, heuristics and bounds.

python benchmarks/go_scale.py --rows docs/results/go-scale-rows.jsonl --arms "gdp;gdp, gcn"
python benchmarks/go_scale.py --rows docs/results/go-scale-rows.jsonl --arms "annealing, seconds"

Each arm runs in a process of its own, which writes a row as it goes on. Whole arms are not run
again, and a training goes on from its latest row. Seconds of a search are of the CPU, over all
threads; rows state those of the clock, too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from time import perf_counter, process_time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scale import compile_kernels

import placement_gym  # noqa: F401  registers the environments
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.env import DevicePlacementEnv, placement_env
from placement_gym.solvers.bounds import critical_path_ms, load_ms, path_ms

Row = dict[str, Any]
DEVICES = ["CPU", *({"name": f"GPU.{i}", "weight_share": 0.4} for i in range(2))]
PLACEMENTS, SHOWN = 20, 5
"""Placements of an update, and updates between two rows."""
STATES = Path(gettempdir()) / "go-scale"
MARKS = (20, 200, 2_000)
"""Evaluations at which a table shows the best placement."""
CHUNK, EVERY_S = 4, 60.0
"""Evaluations of a search between two looks at the clock, and CPU seconds between two rows."""
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}
"""Makes glibc keep what is freed. Tensors of 80,000 rows else go back to the system each time, and
a quarter of the CPU seconds is spent on pages that are taken anew."""
TRAINED: dict[str, dict[str, Any]] = {
    "gdp": {"n_epochs": 1, "policy": {"recompute": False}},
    "gdp, recomputed": {"n_epochs": 1},
    "gdp, gcn": {"gcn": True, "n_epochs": 1},
}
"""Options of the agent; one step on each rollout."""
SEARCHES: dict[str, tuple[str, bool]] = {
    "annealing": ("annealing", False),
    "annealing, seconds": ("annealing", True),
    "search": ("search", False),
}
"""Name of a search, and whether seconds end it, not evaluations."""
HEURISTICS = ("single-device", "heft")
BOUNDS = {"critical path": critical_path_ms, "path": path_ms, "loads": load_ms}
ARMS = (*TRAINED, *SEARCHES, *HEURISTICS, *BOUNDS)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True, help="file of results")
    parser.add_argument("--arms", default=";".join(ARMS), help="%(default)s")
    parser.add_argument("--states", type=Path, default=STATES, help="of trainings (%(default)s)")
    parser.add_argument("--model", default="family-translation-80000-seed0", help="%(default)s")
    parser.add_argument("--updates", type=int, default=100, help="%(default)s")
    parser.add_argument("--seconds", type=float, default=900.0, help="of a search (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.states.mkdir(parents=True, exist_ok=True)
    if options.arm:
        for row in run(options.arm, options):
            with options.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return
    whole = {row["arm"] for row in read(options.rows) if row["last"] and same(row, options)}
    for arm in [arm for arm in options.arms.split(";") if arm not in whole]:
        command = [sys.executable, __file__, *sys.argv[1:], "--arm", arm]
        subprocess.run(command, check=True, env=os.environ | MALLOC)
    Console(width=120).print(tabulate([row for row in read(options.rows) if same(row, options)]))


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.open()] if path.exists() else []


def same(row: Row, options: argparse.Namespace) -> bool:
    """Whether a row is of this problem and seed."""
    return (row["model"], row["seed"]) == (options.model, options.seed)


def run(arm: str, options: argparse.Namespace) -> Iterator[Row]:
    """The rows of an arm: evaluations, CPU seconds, peak memory and the best latency so far."""
    if arm in TRAINED or arm in SEARCHES:
        compile_kernels(AgentSpec(SEARCHES[arm][0] if arm in SEARCHES else "annealing"))
    state = options.states / f"{options.model}-{arm}-{options.seed}.pt"
    known = torch.load(state) if arm in TRAINED and state.exists() else {}
    started = process_time() - known.get("cpu_s", 0.0)
    began = perf_counter() - known.get("wall_s", 0.0)
    env = make_env(options.model)
    if arm in BOUNDS:
        rows = iter([(0, BOUNDS[arm](env.problem, env.cost_table()), True)])
    elif arm in TRAINED:
        rows = train(env, TRAINED[arm], options.updates, options.seed, known)
    elif arm in SEARCHES:
        name, timed = SEARCHES[arm]
        seconds = options.seconds if timed else None
        rows = search(env, name, options.updates * PLACEMENTS, seconds, options.seed)
    else:
        rows = iter([(0, latency_ms(env, AgentSpec(arm).make(env, options.seed)), True)])
    for evaluations, found_ms, last in rows:
        if arm in TRAINED:
            spent = {"cpu_s": process_time() - started, "wall_s": perf_counter() - began}
            torch.save(known | spent, state)
        yield {
            "model": options.model,
            "operators": env.problem.n_units,
            "arm": arm,
            "seed": options.seed,
            "evaluations": evaluations,
            "latency_ms": found_ms,
            "cpu_s": round(process_time() - started, 1),
            "wall_s": round(perf_counter() - began, 1),
            "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
            "last": last,
        }


def make_env(model: str) -> DevicePlacementEnv:
    kwargs = {"granularity": "op", "schedule": "list", "observe_graph": False, "repair": True}
    return placement_env(gym.make("DevicePlacementSim-v0", model=model, devices=DEVICES, **kwargs))


def latency_ms(env: DevicePlacementEnv, agent: Any) -> float:
    """Latency of the placement that an agent predicts."""
    return float(env.backend.evaluate(agent.assignment).latency_ms)


def train(
    env: DevicePlacementEnv, options: dict[str, Any], updates: int, seed: int, known: dict[str, Any]
) -> Iterator[tuple[int, float, bool]]:
    """Train; evaluations, the best latency so far and whether it is over, every few updates.

    What a later call needs to go on is in ``known`` then.
    """
    agent: Any = AgentSpec("gdp", options).make(env, seed)
    best = Best(env)
    if known:
        agent.policy.load_state_dict(known["policy"])
        agent.policy.optimizer.load_state_dict(known["optimizer"])
        torch.set_rng_state(known["random"])
        best.speedup = known["speedup"]
    for update in range(known.get("updates", 0) + 1, updates + 1):
        agent.learn(PLACEMENTS, reset_num_timesteps=False)
        if update == 1 or update % SHOWN == 0 or update == updates:
            known |= {
                "policy": agent.policy.state_dict(),
                "optimizer": agent.policy.optimizer.state_dict(),
                "random": torch.get_rng_state(),
                "speedup": best.speedup,
                "updates": update,
            }
            found_ms = env.reference.reference_ms / best.speedup
            yield update * PLACEMENTS, found_ms, update == updates


class Best:
    """Remembers the highest speed-up that an environment has evaluated.

    Args:
        env: Its backend is watched from now on.
    """

    def __init__(self, env: DevicePlacementEnv) -> None:
        self.speedup, self.evaluate = 0.0, env.backend.evaluate_batch
        env.backend.evaluate_batch = self.watch  # type: ignore[method-assign]

    def watch(self, assignments: Any) -> Any:
        speedup, feasible = found = self.evaluate(assignments)
        self.speedup = max(self.speedup, float(np.where(feasible, speedup, 0.0).max()))
        return found


def search(
    env: DevicePlacementEnv, name: str, budget: int, seconds: float | None, seed: int
) -> Iterator[tuple[int, float, bool]]:
    """Search until evaluations or seconds are spent; a row at each mark and each minute.

    The horizon, over which a search cools down, is what can be evaluated in the seconds.
    """
    started = process_time()
    agent: Any = AgentSpec(name).make(env, seed)
    agent.horizon = budget
    marks, minute = list(MARKS), EVERY_S
    while True:
        agent.learn(CHUNK)
        spent = process_time() - started
        if seconds is not None:
            agent.horizon = max(int(agent.evaluations * seconds / spent), 1)
        over = agent.evaluations >= budget if seconds is None else spent >= seconds
        reached = bool(marks) and agent.evaluations >= marks[0]
        if over or reached or spent >= minute:
            marks = marks[reached:]
            minute = (spent // EVERY_S + 1.0) * EVERY_S
            yield agent.evaluations, latency_ms(env, agent), over
        if over:
            return


def tabulate(rows: list[Row]) -> Table:
    """The best latency of each arm at each mark and at its end."""
    marks = [f"at {mark}" for mark in MARKS]
    table = Table("arm", *marks, "end", "evaluations", "CPU s", "wall s", "GiB")
    for arm in dict.fromkeys(row["arm"] for row in rows):
        mine = {row["evaluations"]: row for row in rows if row["arm"] == arm}
        last = mine[max(mine)]
        cells = [f"{mine[mark]['latency_ms']:.1f}" if mark in mine else "" for mark in MARKS]
        end = f"{last['latency_ms']:.1f}"
        clocks = [f"{last[key]:.0f}" if key in last else "" for key in ("cpu_s", "wall_s")]
        spent = [*clocks, f"{last['peak_gib']:.1f}"]
        table.add_row(arm, *cells, end, str(last["evaluations"]), *spent)
    return table


if __name__ == "__main__":
    main()
