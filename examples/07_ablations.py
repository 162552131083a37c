"""The worth of each part of HSDAG: the paper's Table 3, and ablations that it lacks.

HSDAG is its preset ``rl`` here. Every variant places each model with the same budget and seeds
in the simulated environment. 0 is the best single device, 1 the proven optimum; the table shows
medians over the seeds. Started again after a stop, it runs what is missing.
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
from placement_gym.solvers.cuts import minimum_cut

ENV = "DevicePlacementSim-v0"
BLIND = {"features": [name for name in FEATURES if name != "cost"], "cost_weight": 0.0}
STRUCTURE = ("in_degree", "out_degree", "fractal_dimension")
NO_COLOCATION = "without co-location"
SMOKE = ("HSDAG", "without GNN", NO_COLOCATION)
LOWEST = -0.25  # the left edge of the picture


def variants(blind: bool) -> dict[str, dict]:
    """Each variant's agent; a blind one does not observe the devices' times."""
    base = BLIND if blind else {"features": list(FEATURES)}

    def hsdag(**settings) -> dict:
        policy = {**base, **settings.pop("policy", {})}
        return {"name": "hsdag", "kwargs": {"policy": policy, **settings}}

    def without(*blocks: str) -> dict:
        features = [name for name in base["features"] if name not in blocks]
        return hsdag(policy={"features": features})

    return {
        "HSDAG": hsdag(),
        "without output shape": without("shape"),
        "without node ID": without("position"),
        "without graph structure": without(*STRUCTURE),
        "without grouping": hsdag(policy={"groups": 0, "depth": 0}),
        "groups parsed": hsdag(policy={"groups": 0}),
        "without table": hsdag(policy={"table": False}),
        "without GNN": hsdag(policy={"layers": 0}),
        "symmetrised GCN": hsdag(policy={"directed": False}),
        "GAT": hsdag(policy={"conv": "gat"}),
        "GIN": hsdag(policy={"conv": "gin"}),
        "with imitation": hsdag(imitate=10.0),
        "reward 1 / latency": hsdag(envs={"num_envs": 20, "reward": "inverse_latency"}),
        "reward -sqrt(latency)": hsdag(envs={"num_envs": 20, "reward": "neg_sqrt_latency"}),
        NO_COLOCATION: hsdag(),
        "paper": {"name": "hsdag", "kwargs": {"preset": "paper"}},
        "random": {"name": "random"},
        "random blocks": {"name": "random-blocks"},
        "annealing": {"name": "annealing"},
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


def gaps_closed(study: Study, rows: list[dict]) -> list[dict]:
    """The rows of a study as variants with the gaps that they close."""
    found = []
    references = {model: reference_latencies(study, model) for model in study.models}
    for row in rows:
        if row["error"]:
            raise SystemExit(f"{row['label']} on {row['model']}: {row['error']}")
        names = ("model", "seed", "budget", "latency_ms", "wall_s")
        run = {"variant": study.label(row), **{name: row[name] for name in names}}
        for name, key in (("finalist", "latency_ms"), ("greedy", "greedy_latency_ms")):
            run[name] = gap_closed(row[key], *references[row["model"]])
        found.append(run)
    return found


def reference_latencies(study: Study, model: str) -> tuple[float, float]:
    """Latencies of the best single device and of the optimum, a minimum cut, in ms."""
    env = placement_env(gym.make(ENV, model=model, devices=study.devices[0], **study.env_kwargs))
    optimum = minimum_cut(env.problem.units, env.cost_table()).assignment
    env.reset()
    *_, info = env.step(optimum)
    return info["best_single_ms"], info["latency_ms"]


def gap_closed(latency_ms: float | None, single_ms: float, optimum_ms: float) -> float:
    """0 for the best single device, 1 for the optimum; an infeasible placement counts as -1."""
    return -1.0 if latency_ms is None else (single_ms - latency_ms) / (single_ms - optimum_ms)


def medians(runs: list[dict], models: list[str], column: str) -> dict[str, list[float]]:
    """The medians of each variant over its seeds, one per model."""
    values = defaultdict(list)
    for run in runs:
        values[run["variant"], run["model"]].append(run[column])
    labels = dict.fromkeys(run["variant"] for run in runs)
    return {label: [float(np.median(values[label, model])) for model in models] for label in labels}


def make_table(runs: list[dict], models: list[str]) -> Table:
    """Finalist, and greedy placement in brackets."""
    table = Table("variant", *models, title="gap closed by the finalist (greedy placement)")
    finalists, greedy = (medians(runs, models, name) for name in ("finalist", "greedy"))
    for label, values in finalists.items():
        pairs = zip(values, greedy[label], strict=True)
        table.add_row(label, *(f"{found:.2f} ({predicted:.2f})" for found, predicted in pairs))
    return table


def draw(runs: list[dict], models: list[str], path: Path) -> None:
    """Draw the gap that each variant's finalist closes, as bars; losses are left of 0."""
    found = medians(runs, models, "finalist")
    figure = Figure(figsize=(8, 9), layout="constrained")
    axes = figure.subplots()
    position, height = np.arange(len(found)), 0.8 / len(models)
    for k, model in enumerate(models):
        place = position + (k - (len(models) - 1) / 2) * height
        axes.barh(place, [values[k] for values in found.values()], height, label=model)
    for value in (0.0, 1.0):
        axes.axvline(value, color="#333333", lw=1.0)
    axes.set_yticks(position, list(found))
    axes.set(xlim=(LOWEST, 1.03), ylim=(len(found) - 0.5, -0.5))
    axes.set_xlabel("closed gap between the best single device (0) and the optimum (1)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=len(models), frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="inception,resnet,bert-8", help="comma-separated")
    parser.add_argument("--devices", default="hsdag-paper", help="two unlimited devices")
    parser.add_argument("--budget", type=int, default=500, help="evaluations per run")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each variant")
    parser.add_argument("--blind", action="store_true", help="hide the devices' times")
    parser.add_argument("--out", default="results/ablations", help="folder for the results")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    agents = variants(options.blind)
    if options.smoke:
        options.models, options.budget, options.seeds = "tiny", 20, 1
        agents = {label: agents[label] for label in SMOKE}

    out, runs, order = Path(options.out), [], list(agents)
    by_granularity = {"op": {NO_COLOCATION: agents.pop(NO_COLOCATION)}, "colocated": agents}
    for granularity in ("colocated", "op"):
        study = make_study(by_granularity[granularity], granularity, options)
        executor = "serial" if options.smoke else "auto"
        runs += gaps_closed(study, run_study(study, out, executor))
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
