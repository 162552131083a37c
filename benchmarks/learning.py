"""Learning curves of learned agents on problems that chose no setting.

    python benchmarks/learning.py --data DIR --rows rows.jsonl          # runs what has no row yet
    python benchmarks/learning.py --rows docs/results/learning-rows.jsonl.gz --tables
    python benchmarks/learning.py --rows docs/results/learning-rows.jsonl.gz --picture learning.png

DIR holds the inputs of dnn-partitioning; without it the six problems with little memory are left
out. All begin with random placements, and are compared with annealing that does.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from common import (
    BY_RANK,
    Meter,
    Row,
    combine,
    describe_env,
    describe_run,
    make_env,
    make_parser,
    read_rows,
    run_missing,
)
from scipy import stats
from stable_baselines3 import PPO
from summaries import describe_mean, group_by, print_table

from placement_gym.base.arrays import FloatArray
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.budget import BudgetReached
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import play_episode

SMALL = ("inception", "resnet", "bert-8")
LIMITED = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "LayerGraphs/inceptionv3_inference",
    "OperatorGraphs/bert_l-3_inference",
    "OperatorGraphs/resnet50_inference",
    "OperatorGraphs/bert_l-12_inference",
)
"""With four accelerators that hold a fifth of the weights each."""
POINTS = (100, 500, 2000, 10_000)
DRAWN = 2000
"""Budget of the runs whose curves, greedy placements and seconds are shown."""
RECENT = 100
"""Placements that a mean is of."""
FLOOR = "annealing"
SINGLE_UNITS = "hsdag, single units"
"""HSDAG's encoder and placer alone: what grouping costs."""
GROUPED_POST = "post, grouped"
"""Post's updates on runs of units and drawn groups, which are ours."""
N_COLOURS = 10
"""After which curves are dashed, as colours come again."""
PUBLISHED = ("rnn", "gdp", "hdp", "placeto")
"""Published systems whose curves are not drawn."""


def make_ppo(env: DevicePlacementEnv, seed: int) -> PPO:
    """Make SB3's PPO with its own policy."""
    return PPO("MultiInputPolicy", env, n_steps=100, batch_size=100, seed=seed, device="cpu")


ARMS: dict[str, AgentSpec] = {
    **{
        name: AgentSpec(name)
        for name in ("logits", "logits-multiscale", "logits-groups", "graph-groups", "hsdag")
    },
    SINGLE_UNITS: AgentSpec("hsdag", {"policy": {"depth": 0}}),
    **{name: AgentSpec(name) for name in ("post", *PUBLISHED)},
    GROUPED_POST: AgentSpec("post", {"policy": {"runs": True, "groups": 30}}),
    "graph-groups, redrawn": AgentSpec(
        "graph-groups", {"redraw": 100, "envs": {"num_envs": 5}, "n_steps": 4}
    ),
    FLOOR: AgentSpec(FLOOR, {"start": "random"}),
    "hsdag paper": AgentSpec("hsdag", {"preset": "paper"}),
    "hsdag code": AgentSpec("hsdag", {"preset": "code"}),
    "ppo": AgentSpec("learning:make_ppo"),
}
"""Learned agents from random starts, and what they are compared with."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--rows", type=Path, required=True, help="rows, added to and read")
    parser.add_argument("--agents", default=";".join(ARMS), help="arms, separated by ;")
    parser.add_argument("--budget", type=int, default=2000, help="placements (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each (%(default)s)")
    parser.add_argument("--tables", action="store_true", help="print tables of the rows alone")
    parser.add_argument("--picture", type=Path, help="draw the rows' curves instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.picture:
        draw(read_rows(options.rows), options.picture)
    elif options.tables:
        print_tables(read_rows(options.rows))
    else:
        print_tables(run_missing(options.rows, list_jobs(options), partial(learn, options.data)))


def list_jobs(options: argparse.Namespace) -> list[Row]:
    """Fields of the runs that are wanted."""
    choices = combine(
        seed=range(options.seeds),
        problem=(*SMALL, *(LIMITED if options.data else ())),
        arm=options.agents.split(";"),
        budget=[options.budget],
    )
    return list(choices)


def load(data: Path | None, problem: str) -> DevicePlacementEnv:
    """The environment of a problem; placements that do not fit are repaired."""
    if problem in SMALL:
        return make_env(problem, devices="hsdag-paper", observe_graph=False)
    assert data is not None
    return make_env(
        data / "latency-inputs" / f"{problem}.json",
        devices="1cpu+4acc@0.2",
        granularity="op",
        schedule=BY_RANK,
        repair=True,
        observe_graph=False,
    )


class Recorder(Meter):
    """Keeps the speed-up of every evaluation, 0 if it is infeasible."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.speedups: list[float] = []

    def record(self, assignment: Any, speedup: float, error: str) -> None:
        """See ``Meter``."""
        self.speedups.append(0.0 if error else speedup)
        super().record(assignment, speedup, error)


def learn(data: Path | None, seed: int, problem: str, arm: str, budget: int) -> Row:
    """Let an agent learn, and return how well it placed."""
    row = learn_in(load(data, problem), ARMS[arm], seed, budget)
    return row if arm != FLOOR else row | {"greedy_ms": None}


def learn_in(env: DevicePlacementEnv, agent: AgentSpec, seed: int, budget: int) -> Row:
    """Let an agent learn, and return how well it placed."""
    recorder, began_s = Recorder(env.backend, [budget]), process_time()
    with env.with_backend(recorder):
        made = agent.make(env, seed)
        env.reset(seed=seed)
        with suppress(BudgetReached):
            made.learn(budget)
    cpu_s = process_time() - began_s
    greedy = float(play_episode(env, made)["latency_ms"])
    speedups = np.array(recorder.speedups[:budget])
    latencies = env.backend.reference_ms / np.where(speedups > 0.0, speedups, np.nan)
    at = np.unique(np.geomspace(20, len(latencies), 40).astype(int))
    points = sorted({*(n for n in POINTS if n <= len(latencies)), budget})
    return describe_run(describe_env(env), agent, seed, budget, recorder) | {
        "units": env.problem.n_units,
        "best_ms": {str(n): float(np.nanmin(latencies[:n])) for n in points},
        "mean_ms": {str(n): mean_before(latencies, n) for n in points},
        "curve": [[int(n), round(mean_before(latencies, n), 4)] for n in at],
        "greedy_ms": greedy,
        "infeasible": int((speedups == 0.0).sum()),
        "cpu_s": round(cpu_s, 2),
    }


def mean_before(latencies: FloatArray, n: int) -> float:
    """The mean of the last placements up to some number."""
    return float(np.nanmean(latencies[max(n - RECENT, 0) : n]))


def select_reaching(rows: Sequence[Row], n: str) -> list[Row]:
    """The rows of the smallest budget that has some number of placements: budgets set schedules."""
    having = [row for row in rows if n in row["best_ms"]]
    least = min((row["budget"] for row in having), default=0)
    return [row for row in having if row["budget"] == least]


def print_tables(rows: Sequence[Row]) -> None:
    """Print what each agent reached on each problem, and how it compares with annealing."""
    points = [str(n) for n in POINTS if any(str(n) in row["best_ms"] for row in rows)]
    lines = []
    for (problem, agent), mine in group_by(rows, "problem", "arm").items():
        line: Row = {"problem": problem.removesuffix("_inference"), "agent": agent}
        for n in points:
            having = select_reaching(mine, n)
            best, mean = (
                np.mean([row[key][n] for row in having]) if having else np.nan
                for key in ("best_ms", "mean_ms")
            )
            line[f"best / mean at {n}"] = f"{best:.4g} / {mean:.4g}" if having else ""
        alike = select_reaching(mine, str(DRAWN))
        known = [row["greedy_ms"] for row in alike if row["greedy_ms"]]
        line["greedy"] = f"{np.mean(known):.4g}" if known else ""
        line["infeasible"] = sum(row["infeasible"] for row in mine)
        line["CPU s"] = f"{np.mean([row['cpu_s'] for row in alike]):.1f}" if alike else ""
        lines.append(line)
    print_table(lines, "ms, means over seeds")
    print_table(
        compare_with_floor(rows, points), "best, % above that of annealing from random starts"
    )


def compare_with_floor(rows: Sequence[Row], points: Sequence[str]) -> list[Row]:
    """For each agent the mean over problems of how far its best is above annealing's, in %.

    Intervals of 95 % are over problems.
    """

    def best(agent: str, problem: str, n: str) -> float:
        mine = [row for row in rows if (row["arm"], row["problem"]) == (agent, problem)]
        found = [row["best_ms"][n] for row in select_reaching(mine, n)]
        return float(np.mean(found)) if found else np.nan

    lines = []
    for (agent,) in group_by(rows, "arm"):
        problems = [key for (key,) in group_by([r for r in rows if r["arm"] == agent], "problem")]
        line: Row = {"agent": agent, "problems": len(problems)}
        for n in points:
            ratios = [100 * (best(agent, one, n) / best(FLOOR, one, n) - 1) for one in problems]
            line[f"at {n}"] = describe_mean([ratio for ratio in ratios if np.isfinite(ratio)])
        lines.append(line)
    return lines


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw a panel for each problem: mean sampled latency over the least that any run found."""
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, NullLocator

    rows = [row for row in rows if row["budget"] == DRAWN]
    problems = group_by(rows, "problem")
    figure, panels = pyplot.subplots(3, 3, figsize=(11, 9), sharex=True, layout="constrained")
    names = [agent for (agent,) in group_by(rows, "arm") if agent not in PUBLISHED]
    for (problem,), panel in zip(problems, panels.flat, strict=False):
        mine = problems[problem,]
        least = min(min(row["best_ms"].values()) for row in mine)
        for number, agent in enumerate(names):
            curves = [dict(row["curve"]) for row in mine if row["arm"] == agent]
            if curves:
                at = sorted(set.intersection(*map(set, curves)))
                mean = [stats.gmean([curve[n] for curve in curves]) / least for n in at]
                dashes = "--" if number >= N_COLOURS else "-"
                panel.plot(at, mean, dashes, color=f"C{number}", label=agent, lw=1.5)
        panel.set_title(f"{problem.removesuffix('_inference')}, {mine[0]['units']} units", size=9)
        panel.set(xscale="log", yscale="log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0)))
        panel.yaxis.set_major_formatter("{x:.3g}")
        panel.yaxis.set_minor_locator(NullLocator())
    for panel in panels[-1]:
        panel.set_xlabel("placements")
    lines = {line.get_label(): line for panel in panels.flat for line in panel.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4)
    figure.supylabel("mean of the last 100 placements / the best of all runs")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
