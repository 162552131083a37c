"""The worth of each part of HSDAG: the paper's Table 3, and ablations that it lacks.

HSDAG is its preset ``rl`` or ``paper``. Every variant places each model with the same budget and
seeds in the simulated environment, and begins with random placements. A row is how far above the
proven optimum a latency is, in %; the table shows medians over the seeds. Started again after a
stop, it runs what is missing.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from placement_gym import Study, placement_env, run_study
from placement_gym.envs.observation import FEATURES
from placement_gym.solvers import minimum_cut

ENV = "DevicePlacementSim-v0"
STRUCTURE = ("in_degree", "out_degree", "fractal_dimension")
PAPER = ("type", "shape", *STRUCTURE, "position")
NO_COLOCATION = "without co-location"
SMOKE = ("HSDAG", "without GNN", NO_COLOCATION)
LINEAR = 0.1  # % above the optimum up to which the picture's axis is linear


def variants(preset: str) -> dict[str, dict]:
    """Each variant's agent."""
    blocks = tuple(FEATURES) if preset == "rl" else PAPER

    def hsdag(policy: dict | None = None, **settings) -> dict:
        kwargs = {"preset": preset, **settings}
        return {"name": "hsdag", "kwargs": kwargs | ({"policy": policy} if policy else {})}

    def without(*left_out: str, **options) -> dict:
        return hsdag({"features": [name for name in blocks if name not in left_out], **options})

    return {
        "HSDAG": hsdag(),
        "without output shape": without("shape"),
        "without node ID": without("position"),
        "without graph structure": without(*STRUCTURE),
        "without grouping": hsdag({"depth": 0}),
        "without gate": hsdag({"gate": False}),
        "without GNN": hsdag({"layers": 0}),
        "GAT": hsdag({"conv": "gat"}),
        "GIN": hsdag({"conv": "gin"}),
        **(changes_of_rl if preset == "rl" else changes_of_paper)(hsdag, without),
        NO_COLOCATION: hsdag(),
        "random": {"name": "random"},
        "random blocks": {"name": "random-blocks"},
        "annealing": {"name": "annealing", "kwargs": {"start": "random"}},
    }


def changes_of_rl(hsdag, without) -> dict[str, dict]:
    """Variants of the preset ``rl`` alone."""
    return {
        "symmetrised GCN": hsdag({"directed": False}),
        "all dominant edges kept": hsdag({"groups": 0}),
        "one level, all kept": hsdag({"groups": 0, "depth": 1}),
        "groups left to the scores": hsdag({"refine": 0}),
        "without devices' times": without("cost", cost_weight=0.0),
        "reward 1 / latency": hsdag(envs={"num_envs": 20, "reward": "inverse_latency"}),
        "reward -sqrt(latency)": hsdag(envs={"num_envs": 20, "reward": "neg_sqrt_latency"}),
    }


def changes_of_paper(hsdag, without) -> dict[str, dict]:
    """Variants of the preset ``paper`` alone."""
    return {
        "directed GCN": hsdag({"directed": True}),
        "with devices' times": hsdag({"features": [*PAPER, "cost"], "cost_weight": 2.0}),
        "with a baseline": hsdag(baseline="per_step"),
        "learning rate 1e-3": hsdag(learning_rate=1e-3),
        "reward log(speed-up)": hsdag(envs={"horizon": 20, "reward": "log_speedup"}),
    }


def make_study(agents: dict[str, dict], granularity: str, options: argparse.Namespace) -> Study:
    """All runs at one granularity."""
    return Study(
        env=ENV,
        models=options.models.split(","),
        agents=[{**agent, "label": label} for label, agent in agents.items()],
        budget=options.budget,
        devices=[options.devices],
        seeds=options.seeds,
        env_kwargs={"granularity": granularity},
    )


def above_optimum(study: Study, rows: list[dict]) -> list[dict]:
    """The rows of a study as variants, with how far above the optimum they are."""
    found = []
    references = {model: reference_latencies(study, model) for model in study.models}
    for row in rows:
        if row["error"]:
            raise SystemExit(f"{row['label']} on {row['model']}: {row['error']}")
        names = ("model", "seed", "budget", "latency_ms", "wall_s")
        run = {"variant": study.label(row), **{name: row[name] for name in names}}
        single_ms, optimum_ms = references[row["model"]]
        for name, ms in (
            ("best", row["latency_ms"]),
            ("greedy", row["greedy_latency_ms"]),
            ("single_device", single_ms),
        ):
            run[name] = np.inf if ms is None else 100.0 * (ms / optimum_ms - 1.0)
        found.append(run)
    return found


def reference_latencies(study: Study, model: str) -> tuple[float, float]:
    """Latencies of the best single device and of the optimum, a minimum cut, in ms."""
    env = placement_env(gym.make(ENV, model=model, devices=study.devices[0], **study.env_kwargs))
    optimum = minimum_cut(env.problem.units, env.cost_table()).assignment
    env.reset()
    *_, info = env.step(optimum)
    return info["best_single_ms"], info["latency_ms"]


def medians(runs: list[dict], models: list[str], column: str) -> dict[str, list[float]]:
    """The medians of each variant over its seeds, one per model."""
    values = defaultdict(list)
    for run in runs:
        values[run["variant"], run["model"]].append(run[column])
    labels = dict.fromkeys(run["variant"] for run in runs)
    return {label: [float(np.median(values[label, model])) for model in models] for label in labels}


def make_table(runs: list[dict], models: list[str]) -> Table:
    """Best placement, and greedy placement in brackets."""
    table = Table("variant", *models, title="% above the optimum, best (greedy)")
    best, greedy = (medians(runs, models, name) for name in ("best", "greedy"))
    for label, values in best.items():
        pairs = zip(values, greedy[label], strict=True)
        table.add_row(label, *(f"{found:.1f} ({predicted:.1f})" for found, predicted in pairs))
    return table


def draw(runs: list[dict], models: list[str], path: Path) -> None:
    """Draw a panel for each model, with the best and greedy placement of each variant."""
    best, greedy, single = (
        medians(runs, models, name) for name in ("best", "greedy", "single_device")
    )
    figure = Figure(figsize=(11, 0.6 + 0.3 * len(best)), layout="constrained")
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    position = np.arange(len(best))
    for k, (model, panel) in enumerate(zip(models, panels, strict=True)):
        for found, face, label in ((greedy, "white", "greedy"), (best, "C0", "best")):
            values = [values[k] for values in found.values()]
            panel.plot(values, position, "o", color="C0", mfc=face, label=label, clip_on=False)
        panel.axvline(
            next(iter(single.values()))[k], color="C3", lw=1.0, label="best single device"
        )
        panel.set_xscale("symlog", linthresh=LINEAR)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set(xlim=(0.0, None), ylim=(len(best) - 0.5, -0.5), title=model)
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(position, list(best))
    figure.supxlabel("% above the proven optimum")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="inception,resnet,bert-8", help="comma-separated")
    parser.add_argument("--devices", default="hsdag-paper", help="two unlimited devices")
    parser.add_argument("--budget", type=int, default=500, help="evaluations per run")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each variant")
    parser.add_argument("--preset", default="rl", choices=("rl", "paper"), help="HSDAG's")
    parser.add_argument("--workers", type=int, help="processes (one for each core)")
    parser.add_argument("--out", default="results/ablations", help="folder for the results")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    agents = variants(options.preset)
    if options.smoke:
        options.models, options.budget, options.seeds = "tiny", 20, 1
        agents = {label: agents[label] for label in SMOKE}

    out, runs, order = Path(options.out), [], list(agents)
    by_granularity = {"op": {NO_COLOCATION: agents.pop(NO_COLOCATION)}, "colocated": agents}
    for granularity in ("colocated", "op"):
        study = make_study(by_granularity[granularity], granularity, options)
        executor = ("serial",) if options.smoke else ("auto", options.workers)
        runs += above_optimum(study, run_study(study, out, *executor))
    runs.sort(key=lambda run: order.index(run["variant"]))

    with (out / "runs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, runs[0])
        writer.writeheader()
        writer.writerows(runs)
    models = options.models.split(",")
    draw(runs, models, out / "ablations.png")
    console = Console(record=True)
    console.print(make_table(runs, models))
    console.save_text(str(out / "table.txt"))


if __name__ == "__main__":
    main()
