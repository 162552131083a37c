"""HSDAG's Table 2 on graphs of the size of its Table 1.

    python benchmarks/hsdag.py run --rows rows.jsonl        # runs what has no row yet
    python benchmarks/hsdag.py tables --rows docs/results/hsdag-rows.jsonl.gz
    python benchmarks/hsdag.py numbers --rows docs/results/hsdag-rows.jsonl.gz
    python benchmarks/hsdag.py parts --rows docs/results/hsdag-parts-rows.jsonl --budget 500
    python benchmarks/hsdag.py statistics

Devices are ``hsdag-paper``, whose single-device latencies are the published ones. Learned agents
and annealing begin with random placements.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Row, combine, make_env, make_parser, read_rows, run_missing
from learning import DRAWN, POINTS, SINGLE_UNITS, SMALL, learn_in
from summaries import group_by, print_table

from agents.hsdag.presets import PAPER_FEATURES
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.study.spec import Study
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.solvers.cuts import minimum_cut

TABLE_1 = {"inception-fp16": (728, 764), "resnet-fp16": (396, 411), "bert-8-fp16": (1009, 1071)}
"""Nodes and edges that the paper states."""
DEVICES = "hsdag-paper"
SMALLER, WHOLE = "colocated", "op"
"""Units after the paper's co-location, and without coarsening."""
HSDAG, CODE, RL, PLACETO, RNN = "HSDAG", "HSDAG, code", "HSDAG, rl", "Placeto", "RNN-based"
SINGLES = "HSDAG, rl without grouping"
GROUPS = "graph-groups"
MULTISCALE, ANNEALING, OPTIMUM = "logits-multiscale", "annealing", "proven optimum"
ARMS: dict[str, AgentSpec] = {
    HSDAG: AgentSpec("hsdag", {"preset": "paper"}),
    CODE: AgentSpec("hsdag", {"preset": "code"}),
    RL: AgentSpec("hsdag"),
    SINGLES: AgentSpec("hsdag", {"policy": {"depth": 0}}),
    GROUPS: AgentSpec(GROUPS),
    MULTISCALE: AgentSpec("logits-multiscale"),
    ANNEALING: AgentSpec("annealing", {"start": "random"}),
    PLACETO: AgentSpec("placeto", {"preset": "paper"}),
    RNN: AgentSpec("rnn", {"preset": "paper"}),
}
TOO_LARGE = (RNN, "bert-8-fp16")
"""What the paper could not run either; it takes half an hour here."""
KEYS = ("best_ms", "mean_ms")
NUMBERS = {HSDAG: "paper", CODE: "code", RL: "rl", SINGLES: "rl, depth=0"}
"""Presets of HSDAG, by arm."""
PARTS: dict[str, dict[str, Any]] = {
    "rl": {},
    "without gate": {"gate": False},
    "groups left to the scores": {"refine": 0.0},
    "all dominant edges kept, one level": {"groups": 0.0, "depth": 1},
    "without grouping": {"depth": 0},
    "without devices' times": {"features": PAPER_FEATURES, "cost_weight": 0.0},
}
"""Options of the preset ``rl`` that leave out a part of it."""
OF_LEARNING = {"hsdag paper": HSDAG, "hsdag code": CODE, "hsdag": RL, SINGLE_UNITS: SINGLES}
"""The same by the names of ``learning.py``."""
SINGLE = {"CPU-only": 0, "GPU-only": 1, "OpenVINO-CPU": 0, "OpenVINO-GPU": 1}
"""Number of the device; OpenVINO's own choices put the whole model on one, as ``hsdag-paper``
supports all operators on both."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--rows", type=Path, default=Path("hsdag.jsonl"), help="%(default)s")
    parser.add_argument(
        "--learning",
        type=Path,
        default=Path("docs/results/learning-rows.jsonl.gz"),
        help="rows of folded graphs (%(default)s)",
    )
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


def shorten(model: str) -> str:
    """The name without its precision, which is that of the fp32 model."""
    return model.removesuffix("-fp16")


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
    """Do the runs of parts that the file lacks, on folded graphs, and print all."""
    jobs = combine(seed=range(options.seeds), problem=SMALL, part=PARTS, budget=[options.budget])
    rows = run_missing(options.rows, jobs, run_part)
    lines = []
    for (part,), mine in group_by(rows, "part").items():
        line: Row = {"variant": part}
        for problem in SMALL:
            above = [100.0 * (row["best_ms"][str(row["budget"])] / row["optimum_ms"] - 1.0)
                     for row in mine if row["problem"] == problem]  # fmt: skip
            line[problem] = f"{np.mean(above):.1f} ({min(above):.1f} to {max(above):.1f})"
        line["CPU s"] = f"{np.mean([row['cpu_s'] for row in mine]):.1f}"
        lines.append(line)
    print_table(lines, "best placement, % above the optimum: mean over seeds, and range")


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


def print_numbers(options: argparse.Namespace) -> None:
    """Print every number of HSDAG: raw graphs, and folded ones from the rows of ``learning.py``."""
    found = [row | {"graph": "raw, fp16"} for row in read_rows(options.rows)]
    found = [row for row in found if row["granularity"] == SMALLER]
    for row in read_rows(options.learning):
        if row["problem"] in SMALL and row["budget"] <= DRAWN:
            arm = OF_LEARNING.get(row["arm"])
            found.append(row | {"graph": "folded", "arm": arm, "model": row["problem"]})
    published = Study.load("paper").published[HSDAG]
    lines = []
    for (graph, model, arm), mine in group_by(found, "graph", "model", "arm").items():
        if arm in NUMBERS:
            best = [row["best_ms"][str(row["budget"])] for row in mine]
            values = (np.mean(best), min(best), max(best))
            lines.append(
                {
                    "model": shorten(model),
                    "graph": f"{graph}, {mine[0]['units']} units",
                    "preset": NUMBERS[arm],
                    "budget": mine[0]["budget"],
                    "seeds": len(mine),
                    "version": mine[0]["version"],
                    "best, ms": "{:.4g} ({:.4g} to {:.4g})".format(*values),
                    "published, ms": published[shorten(model)],
                }
            )
    print_table(sorted(lines, key=lambda line: (line["graph"], line["model"], line["preset"])))


def print_tables(options: argparse.Namespace) -> None:
    """Print gains beside the published ones, what is claimed, and each arm's learning."""
    for granularity in (SMALLER, WHOLE):
        rows = [row for row in read_rows(options.rows) if row["granularity"] == granularity]
        if rows:
            ours = collect(rows)
            print_table(compare(ours), f"{granularity}: % shorter than CPU-only (ms)")
            if granularity == SMALLER:
                print_table(check_claims(ours), "claims, % and, of Placeto's, points")
            print_table(describe_arms(rows), f"{granularity}: ms, means over seeds")


def collect(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Mean best latency in ms, by method and model."""
    found: dict[str, dict[str, float]] = {name: {} for name in (*SINGLE, *ARMS, OPTIMUM)}
    for row in rows:
        for name, device in SINGLE.items():
            found[name][row["model"]] = row["single_ms"][device]
        found[OPTIMUM][row["model"]] = row["optimum_ms"]
    for arm in ARMS:
        for model in TABLE_1:
            best = [
                row["best_ms"][str(row["budget"])]
                for row in rows
                if (row["arm"], row["model"]) == (arm, model)
            ]
            if best:
                found[arm][model] = float(np.mean(best))
    return {name: values for name, values in found.items() if values}


def read_published() -> dict[str, dict[str, float]]:
    """Table 2 in ms, by method and model."""
    known = Study.load("paper").published.items()
    return {name: {f"{m}-fp16": ms for m, ms in values.items()} for name, values in known}


def gain(found: dict[str, dict[str, float]], method: str, model: str) -> float:
    """How much shorter than on the CPU alone, in %; nan if it is not known."""
    ms = found.get(method, {}).get(model, np.nan)
    return 100.0 * (1.0 - ms / found["CPU-only"][model])


def compare(ours: dict[str, dict[str, float]]) -> list[Row]:
    """A line for each method: its published gain and ours on each model."""
    published = read_published()
    lines = []
    for method in ours:
        line: Row = {"method": method}
        for model in TABLE_1:
            for whose, found in (("published", published), ("ours", ours)):
                ms = found.get(method, {}).get(model)
                cell = f"{gain(found, method, model):.1f} ({ms:.4g})" if ms else "-"
                line[f"{shorten(model)}, {whose}"] = cell
        lines.append(line)
    return lines


def check_claims(ours: dict[str, dict[str, float]]) -> list[Row]:
    """The paper's figures, from its own table and from our runs."""
    published, models = read_published(), ours[OPTIMUM]
    methods = [name for name in ours if name not in (*SINGLE, PLACETO, RNN)]
    sources = [("published", published, HSDAG), *((name, ours, name) for name in methods)]

    def write(claim: str, value: Callable[[dict[str, dict[str, float]], str], float]) -> Row:
        return {"claim": claim} | {name: f"{value(*source):.2f}" for name, *source in sources}

    def over_single(model: str, found: dict[str, dict[str, float]], method: str) -> float:
        best = min(found[name][model] for name in ("CPU-only", "GPU-only"))
        return 100.0 * (1.0 - found[method][model] / best)

    return [
        write("over CPU-only, most", lambda *a: max(gain(*a, model) for model in models)),
        write(
            "less Placeto's, most",
            lambda found, method: max(
                gain(found, method, model) - gain(found, PLACETO, model) for model in models
            ),
        ),
        *(write(f"over best single, {shorten(m)}", partial(over_single, m)) for m in models),
    ]


def describe_arms(rows: Sequence[Row]) -> list[Row]:
    """How far each arm is at some numbers of placements."""
    lines = []
    for model in TABLE_1:
        for arm in ARMS:
            mine = [row for row in rows if (row["model"], row["arm"]) == (model, arm)]
            if not mine:
                continue
            line: Row = {"model": shorten(model), "units": mine[0]["units"], "arm": arm}
            for n in (str(n) for n in POINTS[:3]):
                having = [row for row in mine if n in row["best_ms"]]
                pair = [f"{np.mean([row[k][n] for row in having]):.4g}" for k in KEYS if having]
                line[f"best / mean at {n}"] = " / ".join(pair)
            line["greedy"] = f"{np.mean([row['greedy_ms'] for row in mine]):.4g}"
            line["CPU s"] = f"{np.mean([row['cpu_s'] for row in mine]):.1f}"
            lines.append(line | {"runs": len(mine)})
    return lines


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "run": run_all,
    "tables": print_tables,
    "numbers": print_numbers,
    "parts": run_parts,
    "statistics": print_statistics,
}

if __name__ == "__main__":
    main()
