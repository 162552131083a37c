"""What learning adds to the sequential placer: trained against untrained, on unseen problems.

    python benchmarks/sequential.py train --data DIR --checkpoint FILE --seed 0
    python benchmarks/sequential.py compare --data DIR --checkpoints FILE,FILE --problems test

DIR holds the inputs of dnn-partitioning. ``train`` imitates the fastest placements of searches that
the network guides itself; with ``--generations`` its scorer evolves then. ``compare`` evaluates 1,
100 and 500 placements of each network, and of one that has learned nothing; scores are relative to
the best latency known, which is the least that any command with the same ``--best`` has seen.
With ``--fine-tune`` every network is also compared with one that learns from what it evaluates.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from agents.multilevel import Multilevel
from agents.sequential import Network, Sequential
from agents.sequential.active_search import ActiveSearch
from agents.sequential.checkpoint import load_network, save_network
from agents.sequential.evolution import evolve
from agents.sequential.imitation import imitate
from scipy.stats import sem
from sequential_problems import (
    Problems,
    test_problems,
    training_problems,
    validation_problems,
)

from placement_gym.arrays import FloatArray

BUDGETS = (1, 100, 500)


class Arm(NamedTuple):
    """A network and how it searches."""

    network: Network
    noise: float
    agent: type[Sequential] = Sequential


ROLES = {"validation": validation_problems, "test": test_problems}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("train", "compare"))
    parser.add_argument("--data", type=Path, required=True, help="inputs of dnn-partitioning")
    parser.add_argument("--checkpoint", type=Path, help="the file that train writes")
    parser.add_argument("--start", type=Path, help="a file that train begins with")
    parser.add_argument("--problems", default="", help="training problems; or a role (test)")
    parser.add_argument("--passes", type=int, default=30, help="of imitation (%(default)s)")
    parser.add_argument("--labels", type=int, default=2, help="imitated (%(default)s)")
    parser.add_argument("--generations", type=int, default=0, help="of evolution (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the training (%(default)s)")
    parser.add_argument("--checkpoints", default="", help="files to compare, comma-separated")
    parser.add_argument("--noise", default="3", help="factors, if trained (%(default)s)")
    parser.add_argument("--fine-tune", action="store_true", help="also compare active search")
    parser.add_argument("--seeds", type=int, default=3, help="of each search (%(default)s)")
    parser.add_argument("--best", type=Path, default=Path("best.json"), help="%(default)s")
    parser.add_argument("--long", type=int, default=0, help="evaluations of a search for the best")
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"train": train, "compare": compare}[options.command](options)


def train(options: argparse.Namespace) -> None:
    """Train a network and save it."""
    started = perf_counter()
    problems = training_problems(options.data, int(options.problems or 150), options.seed)
    envs = list(problems.values())
    torch.manual_seed(options.seed)
    network = load_network(options.start) if options.start else Network()

    def report(done: int, *values: float) -> None:
        if done % 5 == 0:
            figures = " ".join(f"{value:.4f}" for value in values)
            print(f"{done}: {figures}, {perf_counter() - started:.0f} s", flush=True)

    if options.passes:
        settings = {"labels": options.labels, "learning_rate": 2e-3, "seed": options.seed}
        imitate(network, envs, options.passes, report=report, **settings)
    if options.generations:
        evolve(network, envs, options.generations, seed=options.seed, report=report)
    stated = ("passes", "labels", "generations", "seed", "problems")
    training = {key: getattr(options, key) for key in stated}
    save_network(network, options.checkpoint, training)


def compare(options: argparse.Namespace) -> None:
    """Print scores over problems, and of each problem."""
    role = options.problems or "test"
    problems = ROLES[role](options.data)
    files = [Path(file) for file in options.checkpoints.split(",") if file]
    arms: dict[str, Arm] = {"untrained": Arm(Network(), 1.0)}
    for file, noise in product(files, options.noise.split(",")):
        arms[f"{file.stem}, noise {noise}"] = Arm(load_network(file), float(noise))
    if options.fine_tune:
        arms |= {
            f"{label}, fine-tuned": arm._replace(agent=ActiveSearch) for label, arm in arms.items()
        }
    reached = {
        label: {name: search(problems, name, arm, options.seeds) for name in problems}
        for label, arm in arms.items()
    }
    best = find_best(problems, reached, options)
    print(f"{role}: mean score at {BUDGETS} evaluations, {len(problems)} problems")
    floor = score(reached["untrained"], best)
    for label, latencies in reached.items():
        scores = score(latencies, best)
        gain, error = (scores - floor).mean(axis=0), sem(scores - floor, axis=0)
        print(f"{label:32} {scores.mean(axis=0).round(4)} gain {gain.round(4)} +- {error.round(4)}")
    for row, name in enumerate(problems):
        each = [score(latencies, best)[row].round(3).tolist() for latencies in reached.values()]
        print(f"{name:36} {problems[name].problem.n_units:4} units {each}")


def search(problems: Problems, name: str, arm: Arm, seeds: int) -> FloatArray:
    """(seeds, n_budgets) latencies in ms; infinite if nothing was feasible."""
    env, rows = problems[name], []
    for seed in range(seeds):
        agent = arm.agent(env, seed, arm.network, noise=arm.noise)
        row = []
        for more in np.diff([0, *BUDGETS]):
            agent.learn(int(more))
            row.append(env.reference.latency_ms / (agent.best_speedup or 1e-9))
        rows.append(row)
    return np.array(rows)


def score(latencies: dict[str, FloatArray], best: dict[str, float]) -> FloatArray:
    """(n_problems, n_budgets) best known over latency, averaged over seeds."""
    return np.stack([(best[name] / rows).mean(axis=0) for name, rows in latencies.items()])


def find_best(
    problems: Problems,
    reached: dict[str, dict[str, FloatArray]],
    options: argparse.Namespace,
) -> dict[str, float]:
    """Best latencies known in ms, of this run, of earlier ones, and of long searches."""
    known = json.loads(options.best.read_text()) if options.best.exists() else {}
    for name, env in problems.items():
        found = [known.get(name, np.inf), *(rows[name].min() for rows in reached.values())]
        if options.long:
            long = Multilevel(env, 0).learn(options.long)
            found.append(env.reference.latency_ms / long.best_speedup)
        known[name] = float(min(found))
    options.best.write_text(json.dumps(known))
    return known


if __name__ == "__main__":
    main()
