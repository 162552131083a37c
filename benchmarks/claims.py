"""Sentences of pages with numbers from rows, which ``tests/test_results.py`` compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import floors
import learning
import numpy as np
import online
import stock
from common import load_rows
from summaries import group_by

MODELS = ("resnet", "bert-8", "inception")
"""In the order of the page."""


class Claim(NamedTuple):
    page: str
    text: str
    compute: Callable[[], Sequence[object]]


def list_gains(agent: str) -> list[str]:
    rows = [row for row in online.read_simulated(load_rows("online/requests.jsonl")) if row["sees"]]
    runs = group_by(rows, "agent", "rate")
    return [
        f"{online.measure_gains(floors[0], runs[agent, rate]).mean():.3f}"
        for (name, rate), floors in runs.items()
        if name == online.FLOOR
    ]


def measure_optima(placements: str) -> list[float]:
    """How far HSDAG is above the proven optimum on folded graphs, in %."""
    optima = {row["problem"]: row["optimum_ms"] for row in load_rows("hsdag-parts-rows.jsonl")}
    runs = group_by(load_rows("learning-rows.jsonl.gz"), "arm", "problem")
    best = {model: [row["best_ms"][placements] for row in runs["hsdag", model]] for model in optima}
    return [100.0 * (np.mean(best[model]) / optima[model] - 1.0) for model in MODELS]


def average_distances(agent: str, *placements: str) -> list[float]:
    """How far an agent is above annealing where memory is scarce, in %, mean over problems."""
    best = learning.find_best(load_rows("learning-rows.jsonl.gz"))
    limited = [problem for arm, problem in best if arm == agent and problem not in MODELS]
    return [
        float(np.mean([learning.measure_distance(best, agent, problem, n)
                       for problem in limited]))
        for n in placements
    ]  # fmt: skip


def time_programs() -> tuple[float, float]:
    """Median and maximum of the seconds until searches have the serial program's placement."""
    rows = load_rows("floors/floors.jsonl.xz")
    waits = [
        row["curve"][0][1]
        for row in rows
        if row["arm"] in ("hill-climb", "annealing")
        and row["curve"]
        and not row["model"].startswith(floors.GENERATED)
    ]
    return float(np.median(waits)), max(waits)


def compare_masked() -> list[float]:
    """Speed-ups of MaskablePPO over those of ``greedy``, on generated graphs with limits."""
    return [
        float(line["policy"].split()[1]) / float(line["`greedy`"])
        for line in stock.list_limits(load_rows("stock-rows.jsonl"))
        if line["policy"].startswith("MaskablePPO") and line["problems"].endswith("validation")
    ]


CLAIMS = (
    Claim("online.md", "shortest completion by {}, {}, {} and {} at rates of 0.6, 0.8, 1 and 1.4",
          lambda: list_gains("clone-ppo")),
    Claim("online.md", "PPO from random weights by {}, {}, {} and {}", lambda: list_gains("ppo")),
    Claim("online.md", "Looking ahead gains {}, {}, {} and {}", lambda: list_gains("lookahead")),
    Claim("hsdag.md", "500 placements HSDAG ends {:.1f}, {:.1f} and {:.1f} % above the optimum",
          lambda: measure_optima("500")),
    Claim("hsdag.md", "{:.0f} and {:.0f} % above annealing at 500 and 2,000 placements on average, "
          "`graph-groups` {:.0f} and {:.0f} %",
          lambda: (*average_distances("hsdag", "500", "2000"),
                   *average_distances("graph-groups", "500", "2000"))),
    Claim("hsdag.md", "HSDAG is {:.0f} % above annealing at 500 placements and {:.0f} % at 2,000",
          lambda: average_distances("hsdag, single units", "500", "2000")),
    Claim("published.md", "which takes {:.0f} seconds (median) and up to {:.0f}",
          time_programs),
    Claim("learning.md", "is {:.2f}, {:.2f} and {:.2f} times that of `greedy`", compare_masked),
)  # fmt: skip
