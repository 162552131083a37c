"""Learning curves of learned agents on problems that chose no setting.

    python benchmarks/learning.py --data DIR --rows rows.jsonl          # runs what has no row yet

DIR holds the inputs of dnn-partitioning; without it the six problems with little memory are left
out. All begin with random placements, and are compared with annealing that does:
``learning_tables.py`` has tables of the rows, and draws them.
"""

from __future__ import annotations

import argparse
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
    run_missing,
    search,
)
from learning_tables import FLOOR

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
"""With four accelerators that hold a fifth of the weights each."""
POINTS = (100, 500, 2000)
"""Placements after which rows have the best and the mean; the last are a run's."""
RECENT = 100
"""Placements that a mean is of."""
SINGLE_UNITS = "hsdag, single units"
"""HSDAG's encoder and placer alone: what grouping costs."""


ARMS: dict[str, AgentSpec] = {
    **{name: AgentSpec(name) for name in ("logits", "graph-groups", "hsdag")},
    SINGLE_UNITS: AgentSpec("hsdag", {"policy": {"depth": 0}}),
    "post": AgentSpec("post"),
    "graph-groups, redrawn": AgentSpec(
        "graph-groups", {"redraw": 100, "envs": {"num_envs": 5}, "n_steps": 4}
    ),
    FLOOR: AgentSpec(FLOOR, {"start": "random"}),
    "hsdag paper": AgentSpec("hsdag", {"preset": "paper"}),
}
"""Learned agents from random starts, and what they are compared with."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--rows", type=Path, required=True, help="file of rows, .jsonl")
    parser.add_argument("--agents", default=";".join(ARMS), help="arms, separated by ;")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    run_missing(options.rows, list_jobs(options), partial(learn, options.data))


def list_jobs(options: argparse.Namespace) -> list[Row]:
    """Fields of the runs that are wanted."""
    choices = combine(
        seed=range(options.seeds),
        problem=(*SMALL, *(LIMITED if options.data else ())),
        arm=options.agents.split(";"),
        budget=[POINTS[-1]],
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
    return learn_in(load(data, problem), ARMS[arm], seed, budget)


def learn_in(env: DevicePlacementEnv, agent: AgentSpec, seed: int, budget: int) -> Row:
    """Let an agent learn, and return how well it placed."""
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
    """The mean of the last placements up to some number."""
    return float(np.nanmean(latencies[max(n - RECENT, 0) : n]))


if __name__ == "__main__":
    main()
