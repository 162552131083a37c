"""One policy for new graphs: trained across generated problems, then given 1,000 unseen ones.

    python benchmarks/stream.py --folder FOLDER --rows rows.jsonl    # trains what has no file yet
    python benchmarks/stream.py --rows docs/results/stream-rows.jsonl.gz --tables
    python benchmarks/stream.py --rows docs/results/stream-rows.jsonl.gz --picture stream.png

Networks are trained on problems of one set of seeds and judged on those of another, ``--split
validation`` to choose settings. Seconds are of the process, from when a problem is known to an
answer: features are computed within them, and a policy that learns is made and reads its file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import (
    Meter,
    Row,
    combine,
    describe_mean,
    make_parser,
    print_table,
    read_rows,
    run_missing,
)
from stream_problems import MAX_DEVICES, SIZES, UNSEEN, make_problem
from stream_training import WAYS, find_file

import agents
from agents.placeto.agent import without_graph
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.graph.families.problems import SEEDS
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.list_scheduling import heft
from placement_gym.solvers.search import AnytimeSearch

Arm = Callable[[SimulatedEnv, int], None]
"""Lets something evaluate placements of an environment; with a seed."""
EVALUATIONS, FEW = 100, 20
"""Placements of an arm that evaluates several."""
WARM = 3
"""Problems that are placed untimed, so that compiled code is loaded."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="rows, added to and read")
    parser.add_argument("--folder", type=Path, default=Path(), help="of networks (%(default)s)")
    parser.add_argument("--problems", type=int, default=1000, help="how many (%(default)s)")
    parser.add_argument("--split", default="test", help="test or validation (%(default)s)")
    parser.add_argument("--networks", default="HSDAG,GO", help="of WAYS (%(default)s)")
    parser.add_argument("--tables", action="store_true", help="print tables of the rows alone")
    parser.add_argument("--picture", type=Path, help="draw the rows' picture instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.picture:
        draw(read_rows(options.rows), options.picture)
    else:
        print_tables(read_rows(options.rows) if options.tables else run(options))


def run(options: argparse.Namespace) -> list[Row]:
    """Train the networks that have no file, and place what has no row; returns all rows."""
    names = options.networks.split(",")
    arms = list_arms({name: find_file(options.folder, name) for name in names})
    for problem in SEEDS["train"][:WARM]:
        place_all(arms, problem)
    jobs = combine(problem=SEEDS[options.split][: options.problems])
    return run_missing(options.rows, jobs, partial(place_all, arms))


def list_arms(networks: dict[str, Path]) -> dict[str, Arm]:
    """What is compared, by name."""
    arms: dict[str, Arm] = {"best single device": run_single, "HEFT": run_heft}
    for n in (1, FEW, EVALUATIONS):
        arms[f"list sampling, {n}"] = partial(sample_lists, n)
    arms[f"random blocks, {EVALUATIONS}"] = partial(run_agent, "random-blocks", {})
    arms[f"annealing, {EVALUATIONS}"] = partial(run_agent, "annealing", {"start": "random"})
    for name, file in networks.items():
        network = Network(name, file)
        for n in (1, FEW, EVALUATIONS):
            arms[f"{name}, {f'best of {n}' if n > 1 else 'zero-shot'}"] = partial(network.sample, n)
        arms[f"{name}, adapted, {EVALUATIONS}"] = network.adapt
    return arms


def place_all(arms: dict[str, Arm], problem: int) -> Row:
    """What each arm reaches on a problem: latency in ms, evaluations, infeasible ones, CPU s."""
    sampled = make_problem(problem)
    env = SimulatedEnv(
        **sampled.env_kwargs(), repair=True, observe_graph=False, max_devices=MAX_DEVICES
    )
    devices = sampled.devices
    return {
        "family": sampled.family,
        "units": env.problem.n_units,
        "devices": len(devices),
        "limit": devices[-1].weight_share,
        "link": devices[-1].roofline,
        "schedule": sampled.semantics["schedule"],
        "arms": {name: place(env, arm, problem) for name, arm in arms.items()},
    }


def place(env: SimulatedEnv, arm: Arm, seed: int) -> tuple[float | None, int, int, float]:
    """Latency in ms, None if nothing was feasible; evaluations, infeasible ones, and CPU s."""
    env.observer = replace(env.observer)  # features are computed again
    reference_ms = env.reference.reference_ms
    meter = Meter(env.backend, (sys.maxsize,))
    with env.with_backend(meter):
        arm(env, seed)
    seconds = round(meter.cpu_s, 5)
    best_ms = reference_ms / meter.curve[-1][2] if meter.curve else None
    return best_ms, meter.evaluations, meter.n_infeasible, seconds


def run_single(env: SimulatedEnv, _: int) -> None:
    """Every device alone, as it is: what does not fit is infeasible."""
    problem = env.problem
    singles = [problem.single(device) for device in range(len(problem.devices))]
    env.backend.evaluate_batch(np.stack(singles))


def run_heft(env: SimulatedEnv, _: int) -> None:
    env.evaluate(heft(env.problem, env.cost_table()))


def sample_lists(n: int, env: SimulatedEnv, seed: int) -> None:
    """Evaluate the best of ``n`` list schedules with random preferences and prices of memory."""
    simulator = Simulator(env.problem.units, env.cost_table(), env.exact.semantics)
    search = AnytimeSearch(env.problem, simulator, np.random.default_rng(seed))
    for _ in range(n):
        search.note(search.build())
    env.evaluate(search.best.place.astype(np.int64))


def run_agent(name: str, kwargs: dict[str, Any], env: SimulatedEnv, seed: int) -> None:
    agents.make(name, env, seed, **kwargs).learn(EVALUATIONS)


class Network:
    """A trained policy that is kept from problem to problem, as a compiler would keep it.

    Args:
        name: Of ``WAYS``.
        file: Of its weights.
    """

    def __init__(self, name: str, file: Path) -> None:
        self.way, self.file = WAYS[name], file
        first = make_problem(SEEDS["train"][0]).env_kwargs()
        self.model = self.make(SimulatedEnv(**first, **SIZES, observe_graph=False), 0)

    def make(self, env: SimulatedEnv, seed: int, **settings: Any) -> Any:
        """The agent of an environment, which begins with the weights."""
        policy = dict(self.way.policy)
        return agents.make(self.way.agent, env, seed, weights=self.file, policy=policy, **settings)

    def sample(self, n: int, env: SimulatedEnv, seed: int) -> None:
        """Evaluate the most likely placement, and samples, ``n`` in all."""
        padded = without_graph(env, **SIZES)
        self.model.policy.set_graphs(padded.graph_table(devices=True))
        seen = padded.reset()[0]
        placements = [np.asarray(self.model.predict(seen, deterministic=True)[0])[None]]
        if n > 1:
            torch.manual_seed(seed)
            many = {key: np.repeat(value[None], n - 1, axis=0) for key, value in seen.items()}
            placements.append(self.model.predict(many)[0])
        env.evaluate_batch(np.vstack(placements)[:, : env.problem.n_units])

    def adapt(self, env: SimulatedEnv, seed: int) -> None:
        """Go on learning on this problem."""
        self.make(env, seed, **self.way.adapting).learn(EVALUATIONS)


def score(row: Row) -> dict[str, float | None]:
    """Best known latency over that of each arm; None where nothing was feasible."""
    reached = {name: values[0] for name, values in row["arms"].items()}
    best = min(ms for ms in reached.values() if ms is not None)
    return {name: None if ms is None else best / ms for name, ms in reached.items()}


def print_tables(rows: Sequence[Row]) -> None:
    """Print scores of all arms: of all problems, and of those of some kinds."""
    kinds: dict[str, Callable[[Row], bool]] = {
        "other families": lambda row: row["family"] in UNSEEN,
        "limited": lambda row: row["limit"] is not None,
        "four GPUs": lambda row: row["devices"] == MAX_DEVICES,
        "from 400 units": lambda row: row["units"] >= 400,
    }
    scores, lines = [score(row) for row in rows], []
    for name in rows[0]["arms"]:
        known = [one[name] for one in scores]
        cells = [row["arms"][name] for row in rows]
        line: Row = {
            "arm": name,
            "score": describe_mean([one for one in known if one is not None]),
            "best in": f"{np.mean([one is not None and one > 0.999 for one in known]):.0%}",
            "infeasible": sum(one is None for one in known),
            "CPU ms": f"{1e3 * np.mean([cell[3] for cell in cells]):.1f}",
            "evaluations": f"{np.mean([cell[1] for cell in cells]):.0f}",
        }
        for kind, holds in kinds.items():
            of_kind = [
                one for one, row in zip(known, rows, strict=True) if one is not None and holds(row)
            ]
            line[kind] = f"{np.mean(of_kind):.3f}" if of_kind else ""
        lines.append(line)
    print_table(lines, f"{len(rows)} problems")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the mean score of each arm against its mean seconds."""
    from matplotlib import pyplot

    scores = [score(row) for row in rows]
    figure, panel = pyplot.subplots(figsize=(9, 5.5), layout="constrained")
    groups: dict[str, list[tuple[float, float, str]]] = {}
    for name in rows[0]["arms"]:
        group, _, label = name.partition(", ")
        known = [one[name] for one in scores if one[name] is not None]
        seconds = float(np.mean([row["arms"][name][3] for row in rows]))
        groups.setdefault(group, []).append((seconds, float(np.mean(known)), label))
    for group, points in groups.items():
        panel.plot([p[0] for p in points], [p[1] for p in points], "o-", label=group, lw=1.5)
        for seconds, reached, label in points:
            panel.annotate(label, (seconds, reached), (4, 4), textcoords="offset points", size=7)
    panel.set(xscale="log", xlabel="CPU seconds a graph", ylabel="score: best known / latency")
    panel.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
