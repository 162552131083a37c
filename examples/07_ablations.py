"""What each part of HSDAG is worth: the paper's Table 3, and the ablations that it lacks.

Every variant places each model with the same budget and seeds on the simulated twin. 0 is the
best single device, 1 the proven optimum; the table shows medians over the seeds. Stopped, it goes
on where it was when started again.
"""

import argparse
import csv
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from agents.hsdag.agent import make
from placement_gym.bench.report.optimum import optimum_or_bound
from placement_gym.bench.run.agent_run import run_agent
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.environment import BenchEnv
from placement_gym.observation import FEATURES

BLIND = {"features": tuple(name for name in FEATURES if name != "cost"), "cost_weight": 0.0}
STRUCTURE = ("in_degree", "out_degree", "fractal_dimension")


def variants(blind: bool) -> dict[str, AgentSpec]:
    """Each variant's agent; a blind one does not see the devices' times."""
    base = BLIND if blind else {"features": tuple(FEATURES)}

    def hsdag(**settings) -> AgentSpec:
        policy = {**base, **settings.pop("policy", {})}
        return AgentSpec("hsdag", {"policy": policy, **settings}, make)

    def without(*blocks: str) -> AgentSpec:
        features = tuple(name for name in base["features"] if name not in blocks)
        return hsdag(policy={"features": features})

    return {
        "HSDAG": hsdag(),
        "without output shape": without("shape"),
        "without node ID": without("position"),
        "without graph structure": without(*STRUCTURE),
        "without grouping": hsdag(policy={"grouping": False, "draw_groups": False, "alike": 0.0}),
        "without like groups": hsdag(policy={"alike": 0.0}),
        "without GNN": hsdag(policy={"layers": 0}),
        "symmetrised GCN": hsdag(policy={"directed": False}),
        "GAT": hsdag(policy={"conv": "gat"}),
        "GIN": hsdag(policy={"conv": "gin"}),
        "without imitation": hsdag(elites=0),
        "without least exploration": hsdag(policy={"flips": 0.0}),
        "reward 1 / latency": hsdag(envs={"num_envs": 10, "reward": "inverse_latency"}),
        "reward -sqrt(latency)": hsdag(envs={"num_envs": 10, "reward": "neg_sqrt_latency"}),
        "without co-location": hsdag(),
        "paper": AgentSpec("hsdag", {"preset": "paper"}, make),
        "random": AgentSpec("random"),
        "random blocks": AgentSpec("random-blocks"),
        "annealing": AgentSpec("annealing"),
    }


def gap_closed(latency_ms: float | None, single_ms: float, optimum_ms: float) -> float:
    """0 for the best single device, 1 for the optimum; an infeasible placement counts as -1."""
    return -1.0 if latency_ms is None else (single_ms - latency_ms) / (single_ms - optimum_ms)


class Runs:
    """Rows of a file, a run each; what is in the file is not run again.

    Args:
        path: A CSV file, appended to as runs end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(newline="") if path.is_file() else StringIO() as file:
            self.rows = list(csv.DictReader(file))

    def has(self, **key) -> bool:
        """Whether there is a row with these values."""
        return any(all(row[k] == str(v) for k, v in key.items()) for row in self.rows)

    def add(self, **row) -> None:
        """Append a row."""
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, row)
            if not self.rows:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append({name: str(value) for name, value in row.items()})


def run(label: str, agent: AgentSpec, model: str, runs: Runs, options: argparse.Namespace) -> None:
    """One variant on one model, with every seed."""
    settings = {"budget": options.budget, "devices": options.devices, "blind": options.blind}
    keys = [{"variant": label, "model": model, "seed": s, **settings} for s in range(options.seeds)]
    waiting = [key for key in keys if not runs.has(**key)]
    if not waiting:
        return
    granularity = "op" if label == "without co-location" else "colocated"
    env_kwargs = {"model": model, "devices": options.devices, "granularity": granularity}
    with TemporaryDirectory() as folder:
        bench_env = BenchEnv.make("DevicePlacementSim-v0", env_kwargs, Path(folder))
        single_ms = bench_env.base.get_info()["best_single_ms"]
        optimum_ms = optimum_or_bound(bench_env.base, [])["optimum_ms"]
        for key in waiting:
            row, _ = run_agent(bench_env, agent, key["seed"], options.budget)
            if row.error:
                raise SystemExit(f"{label} on {model}: {row.error}")
            found = gap_closed(row.latency_ms, single_ms, optimum_ms)
            greedy = gap_closed(row.greedy_latency_ms, single_ms, optimum_ms)
            runs.add(
                **key, latency_ms=row.latency_ms, finalist=found, greedy=greedy, wall_s=row.wall_s
            )


def medians(rows: list[dict], models: list[str], what: str) -> dict[str, list[float]]:
    """Of each variant, one for each model."""
    labels = dict.fromkeys(row["variant"] for row in rows)
    values = {pair: [] for pair in product(labels, models)}
    for row in rows:
        values[row["variant"], row["model"]].append(float(row[what]))
    return {label: [float(np.median(values[label, model])) for model in models] for label in labels}


def table_of(rows: list[dict], models: list[str]) -> Table:
    """Finalist, and greedy placement in brackets."""
    table = Table("variant", *models, title="gap closed by the finalist (greedy placement)")
    finalists, greedy = (medians(rows, models, what) for what in ("finalist", "greedy"))
    for label, values in finalists.items():
        pairs = zip(values, greedy[label], strict=True)
        table.add_row(label, *(f"{found:.2f} ({predicted:.2f})" for found, predicted in pairs))
    return table


def draw(rows: list[dict], models: list[str], path: Path) -> None:
    """Bars of what each variant's finalist closes."""
    found = medians(rows, models, "finalist")
    figure = Figure(figsize=(8, 9), layout="constrained")
    axes = figure.subplots()
    position, height = np.arange(len(found)), 0.8 / len(models)
    for k, model in enumerate(models):
        closed = [max(values[k], 0.0) for values in found.values()]
        axes.barh(position + (k - (len(models) - 1) / 2) * height, closed, height, label=model)
    axes.set_yticks(position, list(found))
    axes.invert_yaxis()
    axes.set_xlabel("gap between best single device (0) and optimum (1) that is closed")
    figure.legend(loc="outside upper right", ncols=len(models))
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="inception,resnet,bert-8", help="comma-separated")
    parser.add_argument("--devices", default="hsdag-paper", help="preset of two devices")
    parser.add_argument("--budget", type=int, default=500, help="placements a run")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each variant")
    parser.add_argument("--blind", action="store_true", help="hide the devices' times")
    parser.add_argument("--out", default="results/ablations", help="folder for the results")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    if options.smoke:
        options.models, options.budget, options.seeds = "tiny", 20, 1

    models, out = options.models.split(","), Path(options.out)
    runs = Runs(out / "runs.csv")
    every = [(*item, model) for item in variants(options.blind).items() for model in models]
    for variant in track(every, "variants"):
        run(*variant, runs, options)
    rows = [row for row in runs.rows if row["blind"] == str(options.blind)]
    draw(rows, models, out / "ablations.png")
    console = Console(record=True)
    console.print(table_of(rows, models))
    console.save_text(str(out / "table.txt"))


if __name__ == "__main__":
    main()
