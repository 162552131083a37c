"""Learning curves of learned agents, on problems that were not used to choose settings.

    python benchmarks/learning.py --rows rows.jsonl

All agents begin with random placements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from common import (
    BY_RANK,
    PARTITIONING,
    Meter,
    Row,
    combine,
    describe_env,
    describe_run,
    make_env,
    run_benchmark,
    search,
)
from summaries import Describe, Tables, describe_mean, first, group_by, span, tabulate

from placement_gym.base import FloatArray
from placement_gym.bench.run import AgentSpec
from placement_gym.envs import DevicePlacementEnv

SMALL = ("inception", "resnet", "bert-8")
LIMITED = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "LayerGraphs/inceptionv3_inference",
    "OperatorGraphs/bert_l-3_inference",
    "OperatorGraphs/resnet50_inference",
    "OperatorGraphs/bert_l-12_inference",
)
"""Workloads with four accelerators that hold a fifth of the weights each."""
POINTS = (100, 500, 2000)
"""Placements after which rows have the best and the mean; a run has as many as the last."""
RECENT = 100
"""Placements of a mean."""
FLOOR = "annealing"
"""The agent that others are compared with."""
MARKS = tuple(map(str, POINTS))
PAPER = "hsdag paper"
ARMS: dict[str, AgentSpec] = {
    **{name: AgentSpec(name) for name in ("logits", "graph-groups", "hsdag")},
    "hsdag, single units": AgentSpec("hsdag", {"policy": {"depth": 0}}),
    "post": AgentSpec("post"),
    "graph-groups, redrawn": AgentSpec(
        "graph-groups", {"redraw": 100, "envs": {"num_envs": 5}, "n_steps": 4}
    ),
    FLOOR: AgentSpec(FLOOR, {"start": "random"}),
    PAPER: AgentSpec("hsdag", {"preset": "paper"}),
}


def list_jobs() -> Iterator[Row]:
    """Five seeds of each agent, but one of the slowest agent where memory is scarce."""
    arms = [arm for arm in ARMS if arm != PAPER]
    yield from combine(seed=range(5), problem=(*SMALL, *LIMITED), arm=arms, budget=POINTS[-1:])
    yield from combine(seed=range(1), problem=LIMITED, arm=[PAPER], budget=POINTS[-1:])
    yield from combine(seed=range(5), problem=SMALL, arm=[PAPER], budget=POINTS[-1:])


def load(problem: str) -> DevicePlacementEnv:
    """Make the environment of a problem; placements that do not fit are repaired."""
    if problem in SMALL:
        return make_env(problem, devices="hsdag-paper", observe_graph=False)
    return make_env(
        PARTITIONING / "latency-inputs" / f"{problem}.json",
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

    def record(self, assignment: Any, speedup: float, error: str, disturbed: bool = False) -> None:
        self.speedups.append(0.0 if error else speedup)
        super().record(assignment, speedup, error, disturbed)


def learn(seed: int, problem: str, arm: str, budget: int) -> Row:
    return learn_in(load(problem), ARMS[arm], seed, budget)


def learn_in(env: DevicePlacementEnv, agent: AgentSpec, seed: int, budget: int) -> Row:
    """Let an agent learn, and return the columns of its row."""
    recorder, began_s = Recorder(env.backend, [budget]), process_time()
    search(env, recorder, agent, seed, budget)
    cpu_s = process_time() - began_s
    speedups = np.array(recorder.speedups[:budget])
    latencies = env.backend.reference_ms / np.where(speedups > 0.0, speedups, np.nan)
    at = np.unique(np.geomspace(20, len(latencies), 40).astype(int))
    points = sorted({*(n for n in POINTS if n <= len(latencies)), budget})
    return describe_run(describe_env(env), agent, seed, budget, recorder) | {
        "units": env.problem.n_units,
        "best_ms": {str(n): float(np.nanmin(latencies[:n])) for n in points},
        "mean_ms": {str(n): mean_before(latencies, n) for n in points},
        "curve": [[int(n), round(mean_before(latencies, n), 4)] for n in at],
        "infeasible": int((speedups == 0.0).sum()),
        "cpu_s": round(cpu_s, 2),
    }


def mean_before(latencies: FloatArray, n: int) -> float:
    """The mean of the ``RECENT`` placements before some number."""
    return float(np.nanmean(latencies[max(n - RECENT, 0) : n]))


def list_distances(rows: Sequence[Row]) -> list[Row]:
    """How far each agent's best is above annealing's, %: mean and 95 % interval over problems."""
    best = find_best(rows)

    def above(n: str, mine: list[Row]) -> str:
        agent, problems = mine[0]["arm"], group_by(mine, "problem")
        return describe_mean([measure_distance(best, agent, one, n) for (one,) in problems], 1)

    columns: dict[str, Describe] = {
        "agent": first("arm", "`{}`"),
        **{f"at {int(n):,}": partial(above, n) for n in MARKS},
        "CPU s": lambda mine: span([row["cpu_s"] for row in mine], ".1f"),
    }
    return tabulate(rows, ["arm"], columns)


def find_best(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """Mean over seeds of the best latency, ms: by agent and problem, then by placements."""
    return {
        key: {n: float(np.mean([row["best_ms"][n] for row in mine])) for n in MARKS}
        for key, mine in group_by(rows, "arm", "problem").items()
    }


def measure_distance(
    best: dict[tuple[str, str], dict[str, float]], agent: str, problem: str, n: str
) -> float:
    """How far an agent's best is above annealing's, in %."""
    return 100.0 * (best[agent, problem][n] / best[FLOOR, problem][n] - 1.0)


TABLES: Tables = {"distances": list_distances}


if __name__ == "__main__":
    run_benchmark(__doc__, {"all": (list_jobs, learn)})
