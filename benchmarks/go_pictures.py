"""Picture of GO's page: latencies by CPU seconds.

python benchmarks/go_pictures.py rows.jsonl scale.png
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from common import Row, make_parser, read_rows
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from placement_gym.view.figures import COLOURS, save

SCALE_NAMES = {
    "gdp": "GO",
    "gdp, gcn": "two graph convolutions",
    "annealing": "annealing",
    "search": "search",
}
LEVELS = {"single-device": "fastest single device", "heft": "HEFT", "loads": "lower bound"}
"""Names in the picture."""
ON_THE_RIGHT: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"),
    "textcoords": "offset points",
    "ha": "right",
    "fontsize": 8,
    "color": "#555555",
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    save(draw_scale(read_rows(options.rows)), options.picture)


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


def write_numbers(axes: Axes, axis: str, values: Iterable[float]) -> None:
    """Ticks at some values of a logarithmic axis, written as they are."""
    chosen = getattr(axes, axis)
    chosen.set_ticks(list(values))
    chosen.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    chosen.set_ticks([], minor=True)


if __name__ == "__main__":
    main()
