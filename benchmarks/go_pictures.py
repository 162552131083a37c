"""Pictures of GO's page: latencies by CPU seconds, and distances to planted optima by size.

python benchmarks/go_pictures.py --rows docs/results --out docs/results/go
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, make_parser, read_rows
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from summaries import group_by

from placement_gym.view.figures.style import COLOURS, save

SCALE_NAMES = {
    "gdp": "GO",
    "gdp, gcn": "two graph convolutions",
    "annealing": "annealing",
    "search": "search",
}
LEVELS = {"single-device": "fastest single device", "heft": "HEFT", "loads": "lower bound"}
PLANTED_NAMES = {
    "gdp": "GO",
    "gdp, gcn": "two graph convolutions",
    "random-blocks": "random blocks",
    "heft": "HEFT",
    "hsdag": "HSDAG",
    "graph-groups": "graph-groups",
    "annealing": "annealing",
    "search": "search",
}
"""Names in the pictures."""
LEAST = 0.1
"""Per cent that stands for the optimum on a logarithmic axis."""
ON_THE_RIGHT: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"),
    "textcoords": "offset points",
    "ha": "right",
    "fontsize": 8,
    "color": "#555555",
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="folder of go-*-rows.jsonl")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    scale = read_rows(options.rows / "go-scale-rows.jsonl")
    planted = read_rows(options.rows / "go-planted-rows.jsonl.xz")
    save(draw_scale(scale), options.out / "scale.png")
    save(draw_planted(planted), options.out / "planted.png")


def draw_scale(rows: list[Row]) -> Figure:
    """The best latency so far against CPU seconds; a line for each seed."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for (arm, name), colour in zip(SCALE_NAMES.items(), COLOURS, strict=False):
        for seed in sorted({row["seed"] for row in rows if row["arm"] == arm}):
            mine = [row for row in rows if (row["arm"], row["seed"]) == (arm, seed)]
            spent, found = ([row[key] for row in mine] for key in ("cpu_s", "latency_ms"))
            label = name if seed == 0 else None
            axes.plot(spent, found, color=colour, label=label, marker=".", markersize=4)
    for arm, name in LEVELS.items():
        level_ms = next(row["latency_ms"] for row in rows if row["arm"] == arm)
        axes.axhline(level_ms, color="#777777", linestyle="--", linewidth=1)
        axes.annotate(f"{name} {level_ms:.0f}", (1, level_ms), (-4, 3), **ON_THE_RIGHT)
    axes.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="latency, ms")
    write_numbers(axes, "yaxis", (300, 500, 1000, 2000, 4000))
    write_numbers(axes, "xaxis", (5, 10, 30, 100, 300, 1000))
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.93))
    return figure


def draw_planted(rows: list[Row]) -> Figure:
    """The mean distance to the optimum by size, a panel for each number of devices."""
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, devices in zip(panels, (2, 3), strict=True):
        here = [row for row in rows if row["model"].startswith(f"planted-{devices}x")]
        for (agent, name), colour in zip(PLANTED_NAMES.items(), COLOURS, strict=False):
            mine = group_by((row for row in here if row["arm"] == agent), "operators")
            sizes = sorted(size for (size,) in mine)
            ratios = (np.mean([row["ratio"] for row in mine[(size,)]]) for size in sizes)
            away = [max(100 * (ratio - 1), LEAST) for ratio in ratios]
            label = name if sizes else None
            axes.plot(sizes, away, color=colour, label=label, marker="o", markersize=4)
        axes.set(xscale="log", yscale="log", xlabel="operators", title=f"{devices} equal devices")
        write_numbers(axes, "xaxis", sorted({row["operators"] for row in here}))
        write_numbers(axes, "yaxis", (LEAST, 1, 3, 10, 30, 100))
        axes.set_yticklabels(["0", "1", "3", "10", "30", "100"])
    panels[0].set_ylabel("above the optimum, %")
    panels[1].legend(frameon=False, bbox_to_anchor=(1.0, 1.0), loc="upper left")
    return figure


def write_numbers(axes: Axes, axis: str, values: Iterable[float]) -> None:
    """Ticks at some values of a logarithmic axis, written as they are."""
    chosen = getattr(axes, axis)
    chosen.set_ticks(list(values))
    chosen.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    chosen.set_ticks([], minor=True)


if __name__ == "__main__":
    main()
