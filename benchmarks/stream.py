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
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import (
    Describe,
    Meter,
    Row,
    columns_of,
    combine,
    describe_mean,
    group_by,
    make_parser,
    print_groups,
    read_rows,
    run_missing,
)
from stream_problems import MAX_DEVICES, SIZES, UNSEEN, make_problem
from stream_training import WAYS, find_file

import agents
from agents.placeto import PlacetoPolicy
from agents.placeto.agent import without_graph
from agents.placeto.transfer import ZeroShot
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.graph.families.problems import SEEDS
from placement_gym.schedules.simulator import Simulator
from placement_gym.solvers.heuristics import propose_single_devices
from placement_gym.solvers.list_scheduling import heft
from placement_gym.solvers.search import AnytimeSearch

Arm = Callable[[SimulatedEnv, int], None]
"""Lets something evaluate placements of an environment; with a seed."""
EVALUATIONS, FEW = 100, 20
"""Placements of an arm that evaluates several."""
UNTRAINED = ""
"""The network of rows of arms that have none."""
WARM = 3
"""Problems that are placed untimed, so that compiled code is loaded."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="rows, added to and read")
    parser.add_argument("--folder", type=Path, default=Path(), help="of networks (%(default)s)")
    parser.add_argument("--problems", type=int, default=1000, help="how many (%(default)s)")
    parser.add_argument("--split", default="test", help="test or validation (%(default)s)")
    parser.add_argument("--networks", default="graph-groups,GO", help="of WAYS (%(default)s)")
    parser.add_argument("--seeds", default="0", help="of the trainings, as 0,1,2 (%(default)s)")
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
    problems = SEEDS[options.split][: options.problems]
    groups = {(UNTRAINED, 0): list_untrained()}
    seeds = map(int, options.seeds.split(","))
    for name, seed in product(options.networks.split(","), seeds):
        groups[name, seed] = Network(name, find_file(options.folder, name, seed)).list_arms()
    for (name, seed), arms in groups.items():
        for problem in SEEDS["train"][:WARM]:
            place_all(arms, problem)
        jobs = combine(problem=problems, network=[name], training_seed=[seed])
        run_missing(options.rows, jobs, partial(place_all, arms))
    return read_rows(options.rows)


def list_untrained() -> dict[str, Arm]:
    """What is compared with networks, by name."""
    arms: dict[str, Arm] = {"best single device": run_single, "HEFT": run_heft}
    for n in (1, FEW, EVALUATIONS):
        arms[f"list sampling, {n}"] = partial(sample_lists, n)
    arms[f"random blocks, {EVALUATIONS}"] = partial(run_agent, "random-blocks", {})
    arms[f"annealing, {EVALUATIONS}"] = partial(run_agent, "annealing", {"start": "random"})
    return arms


def place_all(arms: dict[str, Arm], problem: int, **_: Any) -> Row:
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
    singles = [placement for _, placement in propose_single_devices(env.problem)]
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
        self.name, self.way, self.file = name, WAYS[name], file
        first = make_problem(SEEDS["train"][0]).env_kwargs()
        self.model = self.make(SimulatedEnv(**first, **SIZES, observe_graph=False), 0)
        self.by_unit = isinstance(self.model.policy, PlacetoPolicy)

    def list_arms(self) -> dict[str, Arm]:
        """Ways to place by it, by name; Placeto draws few samples, as each takes an episode."""
        numbers = (1, FEW) if self.by_unit else (1, FEW, EVALUATIONS)
        arms: dict[str, Arm] = {
            f"{self.name}, {f'best of {n}' if n > 1 else 'zero-shot'}": partial(self.sample, n)
            for n in numbers
        }
        return {**arms, f"{self.name}, adapted, {EVALUATIONS}": self.adapt}

    def make(self, env: SimulatedEnv, seed: int, **settings: Any) -> Any:
        """The agent of an environment, which begins with the weights."""
        policy = dict(self.way.policy)
        return agents.make(self.way.agent, env, seed, weights=self.file, policy=policy, **settings)

    def sample(self, n: int, env: SimulatedEnv, seed: int) -> None:
        """Evaluate the most likely placement, and samples, ``n`` in all."""
        padded = without_graph(env, **SIZES)
        policy = self.model.policy
        policy.set_graphs(padded.graph_table(devices=True))
        # all units at once, or one after another in an episode without evaluations
        predict = ZeroShot(policy, padded).predict if self.by_unit else self.model.predict
        seen = padded.reset()[0]
        placements = [np.asarray(predict(seen, deterministic=True)[0])[None]]
        if n > 1:
            torch.manual_seed(seed)
            many = {key: np.repeat(value[None], n - 1, axis=0) for key, value in seen.items()}
            placements.append(predict(many)[0])
        env.evaluate_batch(np.vstack(placements)[:, : env.problem.n_units])

    def adapt(self, env: SimulatedEnv, seed: int) -> None:
        """Go on learning on this problem."""
        self.make(env, seed, **self.way.adapting).learn(EVALUATIONS)


def list_runs(rows: Sequence[Row]) -> list[Row]:
    """A row of each arm on each problem, with its score: best known latency over its own.

    The score is zero where nothing was feasible.
    """
    runs: list[Row] = []
    for mine in group_by(rows, "problem").values():
        cells = [(row, arm, *cell) for row in mine for arm, cell in row["arms"].items()]
        best_ms = min(ms for _, _, ms, *_ in cells if ms is not None)
        runs += [
            {
                **row,
                "arm": arm,
                "score": 0.0 if ms is None else best_ms / ms,
                "evaluations": evaluations,
                "cpu_s": seconds,
            }
            for row, arm, ms, evaluations, _, seconds in cells
        ]
    return runs


def print_tables(rows: Sequence[Row]) -> None:
    """Print scores of all arms, in all and on problems of some kinds; then by training seed."""
    runs = list_runs(rows)
    kinds: dict[str, Callable[[Row], bool]] = {
        "other families": lambda run: run["family"] in UNSEEN,
        "limited": lambda run: run["limit"] is not None,
        "four GPUs": lambda run: run["devices"] == MAX_DEVICES,
        "from 400 units": lambda run: run["units"] >= 400,
    }
    columns: dict[str, Describe] = {
        "problems": len,
        "score": lambda mine: describe_mean([run["score"] for run in mine]),
        "best in": lambda mine: f"{np.mean([run['score'] > 0.999 for run in mine]):.0%}",
        "infeasible": lambda mine: sum(not run["score"] for run in mine),
        "CPU ms": lambda mine: f"{1e3 * average(mine, 'cpu_s'):.1f}",
        "evaluations": lambda mine: f"{average(mine, 'evaluations'):.0f}",
    }
    for kind, holds in kinds.items():
        columns[kind] = partial(describe_kind, holds)
    print_groups([run for run in runs if not run["training_seed"]], ["arm"], columns)
    shared = find_shared(runs)
    title = f"{len({run['problem'] for run in shared})} problems, by training seed"
    by_seed = columns_of(shared, "training_seed", lambda mine: f"{average(mine, 'score'):.3f}")
    print_groups(shared, ["arm"], by_seed, title)


def describe_kind(holds: Callable[[Row], bool], runs: Sequence[Row]) -> str:
    """Mean score of the runs on problems of a kind, if there are any."""
    mine = [run for run in runs if holds(run)]
    return f"{average(mine, 'score'):.3f}" if mine else ""


def average(runs: Sequence[Row], key: str) -> float:
    return float(np.mean([run[key] for run in runs]))


def find_shared(runs: Sequence[Row]) -> list[Row]:
    """The runs on problems that all trainings of networks with several have placed."""
    several = {run["network"] for run in runs if run["training_seed"]}
    trainings = group_by(
        (run for run in runs if run["network"] in several), "network", "training_seed"
    )
    placed = [{run["problem"] for run in mine} for mine in trainings.values()]
    return [run for run in runs if all(run["problem"] in problems for problems in placed)]


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the mean score of each arm against its mean seconds, and a dash for each training.

    Seconds are those of the first training, as others were timed at another time.
    """
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(9, 5.5), layout="constrained")
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for (arm,), mine in group_by(find_shared(list_runs(rows)), "arm").items():
        name, _, label = arm.partition(", ")
        group = f"{name} ({len({run['problem'] for run in mine})})"
        mean_s = average([run for run in mine if not run["training_seed"]], "cpu_s")
        lines.setdefault(group, []).append((mean_s, average(mine, "score"), label))
        for training in group_by(mine, "training_seed").values():
            panel.plot(mean_s, average(training, "score"), "_", color=f"C{len(lines) - 1}")
    for number, (group, points) in enumerate(lines.items()):
        seconds, scores, _ = zip(*points, strict=True)
        panel.plot(seconds, scores, "o-", color=f"C{number}", label=group, lw=1.5)
        beside = (4, 4 if number % 6 else -10)
        for x, y, label in points:
            panel.annotate(label, (x, y), beside, textcoords="offset points", size=7)
    panel.margins(x=0.08)
    panel.set(xscale="log", xlabel="CPU seconds a graph", ylabel="score: best known / latency")
    panel.legend(loc="lower right", fontsize=8, title="problems in brackets", title_fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
