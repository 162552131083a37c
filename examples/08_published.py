"""Published numbers of the agents' papers next to those found here, at stated budgets.

Latencies of HSDAG's paper are those of its machine; those found here are of the calibrated twin
``hsdag-paper``, or of generated graphs. Read whether the order of methods is the same, not whether
milliseconds are. With ``--data``, exact placers are compared on the published workloads of
dnn-partitioning, where numbers must agree. Started again after a stop, it runs what is missing.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from placement_gym import Study, placement_env, run_study

ENV = "DevicePlacementSim-v0"
PAPER = {"preset": "paper"}
NO_SHAPE = {"features": ["type", "in_degree", "out_degree", "fractal_dimension", "position"]}
NO_ID = {"features": ["type", "shape", "in_degree", "out_degree", "fractal_dimension"]}
NO_STRUCTURE = {"features": ["type", "shape", "position"]}
AGENTS = {
    "HSDAG": {"name": "hsdag", "kwargs": PAPER},
    "HSDAG, here": {"name": "hsdag"},
    "without output shape": {"name": "hsdag", "kwargs": {**PAPER, "policy": NO_SHAPE}},
    "without node ID": {"name": "hsdag", "kwargs": {**PAPER, "policy": NO_ID}},
    "without graph structure": {"name": "hsdag", "kwargs": {**PAPER, "policy": NO_STRUCTURE}},
    "Placeto": {"name": "placeto", "kwargs": PAPER},
    "Placeto, here": {"name": "placeto"},
    "RNN-based": {"name": "rnn", "kwargs": PAPER},
    "RNN-based, here": {"name": "rnn"},
    "HDP": {"name": "hdp", "kwargs": PAPER},
    "GO": {"name": "gdp", "kwargs": PAPER},
    "Post": {"name": "post", "kwargs": PAPER},
    "Post, here": {"name": "post"},
    "random blocks": {"name": "random-blocks"},
}
TABLE_2 = {
    "CPU-only": {"inception": 12.8, "resnet": 16.0, "bert-8": 6.38},
    "GPU-only": {"inception": 12.0, "resnet": 7.81, "bert-8": 2.77},
    "OpenVINO-CPU": {"inception": 12.8, "resnet": 23.4, "bert-8": 6.57},
    "OpenVINO-GPU": {"inception": 13.8, "resnet": 8.76, "bert-8": 2.84},
    "Placeto": {"inception": 11.6, "resnet": 9.32, "bert-8": 6.51},
    "RNN-based": {"inception": 12.8, "resnet": 8.75},
    "HSDAG": {"inception": 10.5, "resnet": 7.66, "bert-8": 2.67},
    "without output shape": {"inception": 11.7, "resnet": 7.68, "bert-8": 2.78},
    "without node ID": {"inception": 11.7, "resnet": 7.68, "bert-8": 2.79},
    "without graph structure": {"inception": 10.9, "resnet": 7.66, "bert-8": 2.68},
}
"""ms; Tables 2 and 3 of HSDAG's paper. BERT was out of memory for the RNN-based placer."""
SEARCH_S = {
    "HSDAG": {"inception": 2454, "resnet": 1047, "bert-8": 2765},
    "Placeto": {"inception": 2808, "resnet": 1162, "bert-8": 4512},
    "RNN-based": {"inception": 3706, "resnet": 1212},
}
"""Published seconds of search."""
EXPERTS = (
    ("RNN-based", "Mirhoseini 2017", 60.0),
    ("HDP", "Mirhoseini 2018", 60.0),
    ("GO", "Zhou 2020", 21.0),
)
"""How much shorter than experts' placements, at most, in %."""
FOUR_GPUS = [{"name": f"GPU.{i}", "roofline": "GPU"} for i in range(4)]
DOPPLER = {
    "doppler": {"name": "doppler"},
    "critical-path": {"name": "critical-path"},
    "placeto": {"name": "placeto", "kwargs": PAPER},
}
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

PANELS = {
    ("Duan 2024", "ms"): ("latencies, here / published (Duan 2024)", "what", "model"),
    ("Duan 2024", "s"): ("search in seconds, here / published (Duan 2024)", "what", "model"),
    ("Tarnawski 2020", "ms"): ("loads, here / published (Tarnawski 2020)", "model", "what"),
}
OTHERS = ("other claims", "", "")
"""Titles of panels of the picture, and the attributes of a line in rows and in colours."""


@dataclass
class Line:
    """One published number next to the one found here; None where there is none.

    Attributes:
        paper: First author and year.
        what: What is stated.
        model: On which graph.
        published: The number.
        here: The number found here, a median over seeds.
        unit: Of both.
        budget: Evaluations that a run may use.
        evaluations: Evaluations that it used, a median.
    """

    paper: str
    what: str
    model: str
    published: float | None
    here: float | None
    unit: str
    budget: int | None = None
    evaluations: int | None = None


def median(values: list[float | None]) -> float | None:
    """The median, infeasible runs counting as infinitely slow; None of nothing."""
    known = [np.inf if value is None else value for value in values]
    found = float(np.median(known)) if known else np.inf
    return found if np.isfinite(found) else None


def run(models: list[str], agents: dict, out: Path, options, **kwargs) -> tuple[Study, list[dict]]:
    """Run agents on models; rows of failed runs are left out, with a word."""
    study = Study(
        env=ENV,
        models=models,
        agents=[{**agent, "label": label} for label, agent in agents.items()],
        budget=options.budget,
        seeds=options.seeds,
        **kwargs,
    )
    rows = run_study(study, out, *(("serial",) if options.smoke else ("auto", options.workers)))
    for row in rows:
        if row["error"]:
            print(f"{study.label(row)} on {row['model']}: {row['error']}")
    return study, [row for row in rows if not row["error"]]


def table_2(options: argparse.Namespace, out: Path) -> tuple[list[Line], dict]:
    """HSDAG's Tables 2 and 3 and its times of search; and the runs by label and model."""
    models, devices = options.models.split(","), options.devices
    study, rows = run(models, AGENTS, out / "twin", options, devices=[devices])
    runs = {(label, model): [] for label in AGENTS for model in models}
    for row in rows:
        runs[study.label(row), row["model"]].append(row)
    lines = []
    for model in models:
        env = placement_env(gym.make(ENV, model=model, devices=devices))
        singles = [single and single.latency_ms for single in env.singles.measurements]
        for label in dict.fromkeys([*TABLE_2, *AGENTS]):
            known = runs.get((label, model), [])
            found = median([row["latency_ms"] for row in known]) if known else None
            if label in ("CPU-only", "GPU-only"):
                found = singles[label == "GPU-only"] if len(singles) > 1 else None
            used = [row["evaluations"] for row in known]
            line = Line("Duan 2024", label, model, TABLE_2.get(label, {}).get(model), found, "ms")
            if known:
                line.budget, line.evaluations = options.budget, int(np.median(used))
            lines.append(line)
        for label, seconds in SEARCH_S.items():
            here = median([row["wall_s"] for row in runs[label, model]])
            paper = seconds.get(model)
            lines.append(Line("Duan 2024", f"{label}, search", model, paper, here, "s"))
    return lines, runs


def claims(runs: dict, models: list[str], options: argparse.Namespace) -> Iterator[Line]:
    """The claims of the other papers, from the same runs: the best over the models."""
    budget = options.budget

    def latency(label: str, model: str) -> float:
        return median([row["latency_ms"] for row in runs[label, model]]) or np.inf

    def most(values: list[float]) -> float | None:
        known = [value for value in values if np.isfinite(value)]
        return max(known) if known else None

    fewer = [count_samples(runs, "Placeto", "RNN-based", model) for model in models]
    what = "fewer samples than RNN, up to"
    yield Line("Addanki 2019", what, "all", 6.1, most(fewer), "x", budget)
    rivals = ("Placeto", "RNN-based", "HDP")
    gains = [
        100.0 * (1.0 - latency("Post", m) / min(latency(rival, m) for rival in rivals))
        for m in models
    ]
    what = "shorter than the best other learner, up to"
    yield Line("Gao 2018", what, "all", 63.7, most(gains), "%", budget)
    for label, author, published in EXPERTS:
        saved = [100.0 * (1.0 - latency(label, m) / best_single_ms(m, options)) for m in models]
        what = "shorter than experts (here: the best single device), up to"
        yield Line(author, what, "all", published, most(saved), "%", budget)


def best_single_ms(model: str, options: argparse.Namespace) -> float:
    """Latency of the fastest single device."""
    env = gym.make(ENV, model=model, devices=options.devices)
    return float(env.reset()[1]["best_single_ms"])


def count_samples(runs: dict, first: str, second: str, model: str) -> float:
    """Evaluations that the second needs over those of the first, to the worse of their bests."""
    ratios = []
    for one, other in zip(runs[first, model], runs[second, model], strict=False):
        curves = [row["curve"] for row in (one, other)]
        if not all(curves):
            continue
        goal = min(curve[-1][-1] for curve in curves)
        reached = [next(point[0] for point in curve if point[-1] >= goal) for curve in curves]
        ratios.append(reached[1] / reached[0])
    return float(np.median(ratios)) if ratios else np.nan


def doppler(options: argparse.Namespace, out: Path) -> Iterator[Line]:
    """DOPPLER's claim in its simulator's semantics, on generated graphs as large as its graphs."""
    models = options.generated.split(",")
    devices = [FOUR_GPUS]
    kwargs = {"devices": devices, "env_kwargs": {"schedule": "giph"}}
    study, rows = run(models, DOPPLER, out / "doppler", options, **kwargs)
    for model in models:
        found = {
            label: median(
                [r["latency_ms"] for r in rows if (study.label(r), r["model"]) == (label, model)]
            )
            for label in DOPPLER
        }
        rivals = [found[label] for label in DOPPLER if label != "doppler" and found[label]]
        here = None
        if found["doppler"] and rivals:
            here = 100.0 * (1.0 - found["doppler"] / min(rivals))
        what = "shorter than critical path and Placeto, up to"
        yield Line("Yao 2026", what, model, 52.7, here, "%", options.budget)


def pipelines(options: argparse.Namespace, out: Path) -> Iterator[Line]:
    """Loads of pipelines by DP and DPL, which must agree."""
    folder = Path(options.data) / "throughput-inputs"
    for name, published in PIPELINES.items():
        kwargs = {"env_kwargs": {"objective": "throughput"}}
        agents = {agent: {"name": agent} for agent in ("dp", "dpl")}
        path = str(folder / f"{name}.json")
        study, rows = run([path], agents, out / "pipelines" / name, options, **kwargs)
        for agent, value in zip(agents, published, strict=True):
            here = median([r["latency_ms"] for r in rows if study.label(r) == agent])
            what = f"{agent.upper()}, largest load"
            yield Line("Tarnawski 2020", what, name, value, here, "ms", 1, 1)


def make_table(lines: list[Line]) -> Table:
    table = Table(*Line.__dataclass_fields__, title="published numbers, and those found here")
    for line in lines:
        cells = asdict(line).values()
        table.add_row(*(f"{c:.4g}" if isinstance(c, float) else str(c or "-") for c in cells))
    return table


def draw(lines: list[Line], path: Path) -> None:
    """Draw ratios to published numbers, 1 where they agree, and percentages side by side."""
    panels = {}
    for line in lines:
        if line.published is not None and line.here is not None:
            panels.setdefault(PANELS.get((line.paper, line.unit), OTHERS), []).append(line)
    heights = [2 + len({name(li, row) for li in some}) for (_, row, _), some in panels.items()]
    figure = Figure(figsize=(9, 0.5 + 0.33 * sum(heights)), layout="constrained")
    all_axes = figure.subplots(len(panels), height_ratios=heights, squeeze=False)[:, 0]
    for axes, ((title, row, colour), some) in zip(all_axes, panels.items(), strict=True):
        axes.set_title(title, loc="left", fontsize=9)
        draw_panel(axes, some, row, colour)
    figure.savefig(path, dpi=120)


def draw_panel(axes, lines: list[Line], row: str, colour: str) -> None:
    """Draw ratios of ours to published in rows and colours; pairs of both if no colour is given."""
    names = list(dict.fromkeys(name(line, row) for line in lines))
    series = list(dict.fromkeys(getattr(line, colour) for line in lines)) if colour else []
    for index, label in enumerate(series):
        mine = [line for line in lines if getattr(line, colour) == label]
        at = [names.index(name(line, row)) + 0.2 * (index - (len(series) - 1) / 2) for line in mine]
        axes.plot([line.here / line.published for line in mine], at, "o", ms=5, label=label)
    if series:
        axes.axvline(1.0, color="black", linewidth=0.8)
        ratios = [line.here / line.published for line in lines]
        axes.set_xlim(min(0.9, 0.9 * min(ratios)), max(1.1, 1.1 * max(ratios)))
        axes.set_xscale("log" if max(ratios) > 10.0 * min(ratios) else "linear")
    else:
        at = range(len(names))
        axes.hlines(at, [line.published for line in lines], [line.here for line in lines], "0.8")
        axes.plot([line.published for line in lines], at, "o", ms=5, mfc="white", label="published")
        axes.plot([line.here for line in lines], at, "o", ms=5, label="here")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def name(line: Line, row: str) -> str:
    """The name of a line in the picture."""
    whole = f"{line.paper}: {line.what}, {line.model} ({line.unit})"
    return getattr(line, row) if row else fill(whole.replace(", all", ""), 52)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="inception,resnet,bert-8", help="comma-separated")
    parser.add_argument("--devices", default="hsdag-paper", help="a CPU and a GPU")
    parser.add_argument(
        "--generated",
        default="synthetic-layered-76,synthetic-layered-180,synthetic-series-parallel-229",
        help="graphs for DOPPLER",
    )
    parser.add_argument("--data", help="inputs of dnn-partitioning, for the exact placers")
    parser.add_argument("--budget", type=int, default=500, help="evaluations a run; papers: 2000")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each agent")
    parser.add_argument("--workers", type=int, help="processes (one for each core)")
    parser.add_argument("--out", default="results/published", help="folder for the results")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    if options.smoke:
        options.models, options.budget, options.seeds = "tiny", 20, 1
        options.generated, options.devices = "tiny", "cpu+igpu"
    out = Path(options.out)
    lines, runs = table_2(options, out)
    lines += claims(runs, options.models.split(","), options)
    lines += doppler(options, out)
    if options.data:
        lines += pipelines(options, out)
    with (out / "published.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, Line.__dataclass_fields__)
        writer.writeheader()
        writer.writerows(asdict(line) for line in lines)
    draw(lines, out / "published.png")
    console = Console(record=True, width=140)
    console.print(make_table(lines))
    console.save_text(str(out / "table.txt"))


if __name__ == "__main__":
    main()
