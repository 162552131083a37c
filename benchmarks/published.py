"""Published agents and their parts on workloads with little memory, compared with classic placers.

    python benchmarks/published.py run --data DIR --rows FILE --problems test --budget 200
    python benchmarks/published.py tables --rows FILE --problems test --budget 200
    python benchmarks/published.py samples --rows FILE --problems parts --arms "placeto;rnn"
    python benchmarks/published.py find
    python benchmarks/published.py doppler --graphs compute_graph --data DIR

DIR holds the inputs of dnn-partitioning. ``run`` appends one line a run to FILE and does what is
missing in it; ``--arms`` limits what is run now. ``--budget "5 s"`` runs every agent for five CPU
seconds in place of evaluations. All placements are repaired. A score is the best latency known over
the latency. ``samples`` compares how soon two arms reach the same.

``find`` lists large problems with tight limits: seeds of the test split, a list or event schedule,
three or more devices and at least 150 units; all accelerators together hold less than the model,
and to move every tensor once takes at least as long as to run every unit where it is fastest.

``doppler`` writes DOPPLER's published graphs (that folder of github.com/xinyuyao/Doppler) as
workloads of DIR: four equal accelerators without limits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import (
    BY_RANK,
    Meter,
    Problem,
    Row,
    Scores,
    average,
    best_known_ms,
    compare_scores,
    find_interval,
    group_by,
    make_env,
    make_parser,
    print_table,
    read_rows,
    run_missing,
    search,
)
from floors import DEVICES

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetedBackend
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import play_episode
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.graph.families.problems import SampledProblem, make_problem

ENDLESS, TRIAL = 10**9, 100
"""Evaluations of a run that ends by its seconds, and of one that only compiles what it needs."""
DRAWN = "drawn"
"""In place of devices: those of the problem that the model's seed draws."""
FOUR = "0cpu+4acc"
"""Devices of DOPPLER's publication, whose simulator is schedule ``"giph"``."""
TWIN = "hsdag-paper"
"""Devices of ``examples/08_published.py``."""
DEARER = ", transfers x"
"""Between devices and the factor that all transfers are multiplied by."""
DOPPLER_UNIT = 1e10
"""Divisor of the costs in DOPPLER's publication."""
VALIDATED = ("LayerGraphs/resnet50_inference", "1cpu+2acc@0.3")
"""The one published workload that settings were chosen on."""
SMALL = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "OperatorGraphs/bert_l-3_inference",
    "LayerGraphs/inceptionv3_inference",
)
LARGE = ("OperatorGraphs/resnet50_inference", "OperatorGraphs/bert_l-12_inference")
STARTED = {"begin_with": "heuristics"}
IMITATING = {**STARTED, "imitate": 10.0}
"""Beginning and imitation of the agents whose row says that they begin with heuristics."""


def draw(*names: str, devices: str = DRAWN) -> tuple[Problem, ...]:
    """Generated problems, from family, size and seed."""
    return tuple((f"family-{name}", devices) for name in names)


PARTS = draw(
    "recurrent-53-seed10005",
    "series-parallel-46-seed10021",
    "series-parallel-49-seed10030",
    "branching-91-seed10034",
)
TIGHT = draw(
    "layered-371-seed10020",
    "attention-383-seed10025",
    "experts-247-seed10133",
    "attention-393-seed10158",
    "series-parallel-331-seed10170",
    "attention-191-seed10204",
)
"""The first six that ``find`` lists."""
PROBLEMS = {
    "validation": (
        *draw("layered-81-seed57", "series-parallel-58-seed101"),
        *draw("recurrent-40-seed129", "attention-58-seed151"),
        VALIDATED,
    ),
    "test": (
        *PARTS,
        *draw("attention-77-seed10008", "attention-109-seed10013", "attention-82-seed10035"),
    ),
    "parts": PARTS,
    "published": (
        ("LayerGraphs/bert24_inference", "1cpu+2acc@0.3"),
        ("LayerGraphs/inceptionv3_inference", "1cpu+2acc@0.3"),
        ("OperatorGraphs/bert_l-3_inference", "1cpu+4acc@0.2"),
    ),
    "limited": tuple(
        problem
        for problem in ((model, devices) for model in SMALL for devices in DEVICES.split(","))
        if problem != VALIDATED
    ),
    "limited-large": tuple((model, devices) for model in LARGE for devices in DEVICES.split(",")),
    "tight": TIGHT,
    "tight-dearer": tuple((model, f"{devices}{DEARER}5") for model, devices in TIGHT),
    "twin": tuple((model, TWIN) for model in ("inception", "resnet", "bert-8")),
    "doppler": (
        ("doppler/chain_mm_112nodes", FOUR),
        ("doppler/ffnn_192nodes", FOUR),
        ("doppler/transformer_block_215nodes", FOUR),
        ("doppler/full_transformer_layer_261nodes", FOUR),
    ),
}
"""Problems by role; those of ``"parts"`` are also test problems."""


LEARNED = ("rnn", "hdp", "post", "placeto", "doppler", "gdp", "hsdag")
CLASSIC = ("heft", "random-blocks", "hill-climb", "search", "critical-path")
HSDAG_PARTS: dict[str, dict[str, Any]] = {
    "grouping": {"depth": 0},
    "cutting": {"cut": False},
    "gate": {"gate": False},
    "dropout": {"dropout": 0.0},
    "encoder": {"layers": 0},
    "times": {"cost_weight": 0.0},
}


def make_arms() -> dict[str, AgentSpec]:
    """Every arm by its label: agents, the papers' forms, and parts left out."""
    arms = {name: AgentSpec(name) for name in (*CLASSIC, *LEARNED)}
    for name in LEARNED:
        arms[f"{name}, paper"] = AgentSpec(name, {"preset": "paper"})
        arms[f"{name}, heuristics"] = AgentSpec(name, STARTED)
    for name in ("hsdag", "rnn", "hdp", "gdp", "post"):
        arms[f"{name}, heuristics and imitation"] = AgentSpec(name, IMITATING)
    imitating = {**STARTED, "imitate": 1.0}
    arms["doppler, heuristics and imitation"] = AgentSpec("doppler", imitating)
    for variant in ("joint", "ppo"):
        arms[f"post, {variant}"] = AgentSpec("post", {"variant": variant})
    arms["hill-climb, quick"] = AgentSpec("hill-climb", {"start": "quick"})
    for part, change in HSDAG_PARTS.items():
        arms[f"hsdag, no {part}"] = AgentSpec("hsdag", {"policy": change})
    return arms


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=("run", "tables", "samples", "find", "doppler"))
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--graphs", type=Path, help="folder of DOPPLER's text files")
    parser.add_argument("--rows", type=Path, default=Path("published.jsonl"), help="%(default)s")
    parser.add_argument("--problems", default="test", choices=PROBLEMS, help="(%(default)s)")
    parser.add_argument("--arms", default="", help="labels, separated by ; (all)")
    parser.add_argument("--budget", default="200", help="evaluations, or '5 s' (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="of each arm (%(default)s)")
    parser.add_argument("--against", default="hsdag", help="arm to compare with (%(default)s)")
    options = parser.parse_args()
    options.budget = int(options.budget) if options.budget.isdigit() else options.budget
    torch.set_num_threads(1)
    if options.command == "run":
        run_all(options)
    elif options.command == "find":
        find_tight_problems()
    elif options.command == "doppler":
        convert_graphs(options.graphs, options.data / "latency-inputs" / "doppler")
    else:
        show = print_tables if options.command == "tables" else print_samples
        rows = [complete(row) for row in read_rows(options.rows)]
        show(rows, PROBLEMS[options.problems], options)


def run_all(options: argparse.Namespace) -> None:
    """Do the runs that the file lacks, seed by seed."""
    arms = make_arms()
    chosen = options.arms.split(";") if options.arms else list(arms)

    @cache
    def warm_up(arm: str) -> None:
        env = make_problem_env(options.data, *PROBLEMS[options.problems][0])
        search(env, BudgetedBackend(env.backend, TRIAL), arms[arm], 0, TRIAL)

    def run(model: str, devices: str, arm: str, seed: int, budget: int | str, role: str) -> Row:
        if isinstance(budget, str):
            warm_up(arm)
        env = make_problem_env(options.data, model, devices)
        row = run_arm(env, arms[arm], seed, budget)
        print(
            f"{role}, {model}, {arm}, {seed}: {row['ms']:.4f} ms, {row['cpu_s']:.0f} s", flush=True
        )
        return row

    jobs = (
        {"model": model, "devices": devices, "arm": arm, "seed": seed,
         "budget": options.budget, "role": options.problems}
        for seed in range(options.seeds)
        for model, devices in PROBLEMS[options.problems]
        for arm in chosen
    )  # fmt: skip
    run_missing(options.rows, jobs, run)


def run_arm(env: DevicePlacementEnv, spec: AgentSpec, seed: int, budget: int | str) -> Row:
    """One run: the best latency that it evaluated, and that of its prediction.

    A run that ends by its seconds makes no prediction.
    """
    timed = isinstance(budget, str)
    seconds = (float(budget.split()[0]),) if isinstance(budget, str) else ()
    clock = Meter(env.backend, cpu_seconds=seconds)
    meter = BudgetedBackend(env.backend, budget) if isinstance(budget, int) else clock
    agent, error = None, ""
    try:
        agent = search(env, meter, spec, seed, ENDLESS if timed else meter.budget)
    except Exception as failure:
        spent = meter.evaluations >= meter.budget
        error = "" if spent else f"{type(failure).__name__}: {failure}"
    cpu_s, reference_ms = clock.cpu_s, env.reference.reference_ms
    greedy = None if timed or agent is None else play_episode(env, agent, seed=seed)
    best = meter.curve[-1][-1] if meter.curve else 0.0
    return {
        "ms": reference_ms / max(best, 1e-9),
        "greedy_ms": greedy["latency_ms"] if greedy is not None and greedy["feasible"] else None,
        "curve": [(point[0], reference_ms / point[-1]) for point in meter.curve],
        "evaluations": meter.evaluations,
        "infeasible": meter.n_infeasible,
        "best_known_ms": best_known_ms(env),
        "n_units": env.problem.n_units,
        "cpu_s": cpu_s,
        "error": error,
    }


def make_problem_env(data: Path, model: str, devices: str) -> DevicePlacementEnv:
    """The environment of a problem, with repair."""
    devices, _, factor = devices.partition(DEARER)
    if devices == DRAWN:
        kwargs = make_problem(int(model.rpartition("-seed")[2])).env_kwargs()
        env = SimulatedEnv(**kwargs, observe_graph=False, repair=True)
    else:
        env = make_env(
            data / "latency-inputs" / f"{model}.json",
            devices=devices,
            schedule="giph" if devices == FOUR else BY_RANK,
            granularity="op",
            observe_graph=False,
            repair=True,
        )
    return multiply_transfers(env, float(factor)) if factor else env


def multiply_transfers(env: DevicePlacementEnv, factor: float) -> DevicePlacementEnv:
    """The same problem with transfers that take ``factor`` times as long."""
    known = env.cost_table()
    costs = replace(
        known, link_ms=factor * known.link_ms, link_ms_per_size=factor * known.link_ms_per_size
    )
    assert isinstance(env.backend, SimulatedBackend)
    backend = SimulatedBackend(env.problem, costs, env.backend.semantics)
    unit_ms = costs.unit_ms(env.problem.units)
    return DevicePlacementEnv(backend, observe_graph=False, unit_ms=unit_ms, repair=True)


def find_tight_problems() -> None:
    """Print the large problems with tight limits of 300 seeds."""
    for seed in range(10_000, 10_300):
        problem = make_problem(seed)
        if has_tight_limits(problem):
            env = make_problem_env(Path(), problem.model, DRAWN)
            ratio = compare_transfers(env)
            if env.problem.n_units >= 150 and ratio >= 1.0:
                print(f"{problem.model}: {env.problem.n_units} units, {ratio:.1f}", flush=True)


def has_tight_limits(problem: SampledProblem) -> bool:
    """Tell whether the accelerators of three or more devices hold less than the model."""
    shares = [device.weight_share for device in problem.devices if not device.host]
    limits = [np.inf if share is None else share for share in shares]
    scheduled = problem.semantics.get("schedule") in ("list", "event")
    return scheduled and len(problem.devices) >= 3 and sum(limits) < 1.0


def compare_transfers(env: DevicePlacementEnv) -> float:
    """Time to move every tensor once, over the time to run every unit where it is fastest."""
    costs, problem = env.cost_table(), env.problem
    apart = ~np.eye(len(problem.devices), dtype=np.bool_)
    transfers_ms = costs.transfer_ms[:, apart].mean(axis=1).sum()
    fastest_ms = np.where(problem.supported, costs.unit_ms(problem.units), np.inf).min(axis=1)
    return float(transfers_ms / fastest_ms.sum())


def convert_graphs(graphs: Path, folder: Path) -> None:
    """Write DOPPLER's graphs as workloads, with numbers as in the publication's costs."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(graphs.glob("gdp_*nodes.txt")):
        workload = read_graph(path)
        target = folder / f"{path.stem.removeprefix('gdp_')}.json"
        target.write_text(json.dumps(workload))
        total = sum(node["fpgaLatency"] for node in workload["nodes"])
        print(f"{target}: {len(workload['nodes'])} nodes, {total:.1f} on one device")


def read_graph(path: Path) -> Row:
    """A graph file: number of nodes, inputs, sources and targets of edges, then a line a node."""
    _, _, sources, targets, *lines = path.read_text().splitlines()
    ends = ([int(part) for part in line.split(",") if part.strip()] for line in (sources, targets))
    costs = [[float(part) / DOPPLER_UNIT for part in line.split(",")[:2]] for line in lines if line]
    common = {"supportedOnFpga": 1, "isBackwardNode": 0, "size": 0.0}
    nodes = [
        {"id": number, "cpuLatency": compute, "fpgaLatency": compute, **common}
        for number, (compute, _) in enumerate(costs)
    ]
    # between two accelerators a workload's tensor moves twice, by way of the host
    edges = [
        {"sourceId": a, "destId": b, "cost": costs[a][1] / 2.0} for a, b in zip(*ends, strict=True)
    ]
    return {"maxFPGAs": 4, "maxSizePerFPGA": 0.0, "nodes": nodes, "edges": edges}


def complete(row: Row) -> Row:
    """A row as ``run`` writes it; latencies of the example's rows are over the reference's."""
    if "arm" in row:
        return row
    curve = [(n, 1.0 / speedup) for n, _, speedup in row["curve"]]
    return row | {"arm": row["label"], "devices": TWIN, "curve": curve}


def print_tables(rows: list[Row], problems: Sequence[Problem], options: argparse.Namespace) -> None:
    """Print the arms that ran on all problems with this budget, best first."""
    best = find_best(rows)
    here = [
        row
        for row in rows
        if (row["model"], row["devices"]) in problems and row["budget"] == options.budget
        if not options.arms or row["arm"] in options.arms.split(";")
    ]
    runs = {arm: mine for (arm,), mine in group_by(here, "arm").items()}
    scores = {arm: score_runs(mine, best) for arm, mine in runs.items()}
    against = scores.get(options.against, {})
    complete = [arm for arm in runs if {key[:2] for key in scores[arm]} == set(problems)]
    print_table(
        {
            "arm": arm,
            **compare_scores(scores[arm], against, options.against, problems),
            **rate_predictions(runs[arm], best),
            "CPU s": f"{np.mean([row['cpu_s'] for row in runs[arm]]):.1f}",
            "runs": len(runs[arm]),
            **{name_column(one): f"{average(scores[arm], [one]):.3f}" for one in problems},
        }
        for arm in sorted(complete, key=lambda arm: -average(scores[arm], problems))
    )


def name_column(problem: Problem) -> str:
    """A short name, with the devices where they are not those of the problem's seed."""
    model, devices = problem
    name = Path(model).name.removeprefix("family-").removesuffix("_inference")
    return name if devices.startswith(DRAWN) else f"{name} {devices}"


def find_best(rows: list[Row]) -> dict[Problem, float]:
    """The least latency known of each problem, in ms."""
    best: dict[Problem, float] = {}
    for row in rows:
        problem = (row["model"], row["devices"])
        known = row["best_known_ms"] or np.inf
        best[problem] = min(best.get(problem, np.inf), row["ms"], known)
    return best


def score_runs(rows: list[Row], best: dict[Problem, float]) -> Scores:
    """Score of each run by model, devices and seed."""
    return {
        (row["model"], row["devices"], row["seed"]): best[row["model"], row["devices"]] / row["ms"]
        for row in rows
    }


def rate_predictions(rows: list[Row], best: dict[Problem, float]) -> dict[str, str]:
    """Mean score of the predictions, 0 for infeasible ones, and how many of them were feasible.

    Runs by time make none.
    """
    if any(isinstance(row["budget"], str) for row in rows):
        return {"greedy": "-", "feasible": "-"}
    feasible = sum(row["greedy_ms"] is not None for row in rows)
    each = [best[row["model"], row["devices"]] / (row["greedy_ms"] or np.inf) for row in rows]
    return {"greedy": f"{np.mean(each):.3f}", "feasible": f"{feasible} of {len(rows)}"}


class Pair(NamedTuple):
    """Evaluations of two runs until the worse of their bests, and the difference of these, ms."""

    first: int
    second: int
    behind_ms: float


def print_samples(
    rows: list[Row], problems: Sequence[Problem], options: argparse.Namespace
) -> None:
    """Print how many evaluations two arms need to reach the worse of their bests."""
    arms = options.arms.split(";")
    curves = {
        (row["arm"], row["model"], row["devices"], row["seed"]): row["curve"]
        for row in rows
        if row["budget"] == options.budget and row["curve"]
    }
    pairs: dict[str, list[Pair]] = {Path(model).name: [] for model, _ in problems}
    for problem in problems:
        for seed in range(options.seeds):
            both = [curves.get((arm, *problem, seed)) for arm in arms]
            if all(both):
                pairs[Path(problem[0]).name].append(count_samples(*both))
    everything = [pair for mine in pairs.values() for pair in mine]
    print_table(
        {"problem": name, **describe_samples(mine, *arms)}
        for name, mine in (pairs | {"all": everything}).items()
    )


def count_samples(first: list[Any], second: list[Any]) -> Pair:
    """Compare two curves of evaluations and best latencies."""
    goal = max(first[-1][1], second[-1][1])
    one, other = (
        next(point[0] for point in curve if point[1] <= goal) for curve in (first, second)
    )
    return Pair(one, other, first[-1][1] - second[-1][1])


def describe_samples(pairs: Sequence[Pair], one: str, other: str) -> Row:
    """Medians, the geometric mean of the ratio, and how often the first one's best is better."""
    columns = (one, other, f"{other} over {one} (95 %)", f"{one} better", "runs")
    if len(pairs) < 2:
        return dict(zip(columns, ("-", "-", "-", "-", len(pairs)), strict=True))
    ratio = np.log([pair.second / pair.first for pair in pairs])
    low, high = np.exp(find_interval(ratio))
    medians = (f"{np.median([pair[arm] for pair in pairs]):.0f}" for arm in (0, 1))
    over = f"{np.exp(ratio.mean()):.2f} ({low:.2f}, {high:.2f})"
    better = sum(pair.behind_ms < 0.0 for pair in pairs)
    return dict(zip(columns, (*medians, over, better, len(pairs)), strict=True))


if __name__ == "__main__":
    main()
