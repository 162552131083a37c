"""HSDAG's Table 2 on graphs of the size of its Table 1.

    python benchmarks/hsdag.py raw --rows rows.jsonl
    python benchmarks/hsdag.py parts --rows parts-rows.jsonl

Devices are ``hsdag-paper``, whose single-device latencies are the published ones. Learned agents
and annealing begin with random placements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import learning
import numpy as np
from common import Row, combine, make_env, run_benchmark
from learning import SMALL, learn_in
from summaries import Tables, first, group_by, number, pivot, tabulate

from agents.hsdag.networks import PAPER_FEATURES
from placement_gym.bench.run import AgentSpec
from placement_gym.bench.study import Study
from placement_gym.envs import DevicePlacementEnv
from placement_gym.solvers import minimum_cut

DEVICES = "hsdag-paper"
SMALLER = "colocated"
"""Units after the paper's co-location."""
MODELS = ("inception-fp16", "resnet-fp16", "bert-8-fp16")
HSDAG, PLACETO, RNN, OPTIMUM = "HSDAG", "Placeto", "RNN-based", "proven optimum"
ARMS: dict[str, AgentSpec] = {
    HSDAG: AgentSpec("hsdag", {"preset": "paper"}),
    "HSDAG, rl": AgentSpec("hsdag"),
    "graph-groups": AgentSpec("graph-groups"),
    "HSDAG, rl without grouping": AgentSpec("hsdag", {"policy": {"depth": 0}}),
    "annealing": AgentSpec("annealing", {"start": "random"}),
    PLACETO: AgentSpec("placeto", {"preset": "paper"}),
    RNN: AgentSpec("rnn", {"preset": "paper"}),
}
"""In the order of the tables."""
SINGLE = {"CPU-only": 0, "GPU-only": 1, "OpenVINO-CPU": 0, "OpenVINO-GPU": 1}
"""Method -> its device; OpenVINO's own choices use one, as both support all operators."""
PARTS: dict[str, dict[str, Any]] = {
    "rl": {},
    "without gate": {"gate": False},
    "groups left to the scores": {"refine": 0.0},
    "all dominant edges kept, one level": {"groups": 0.0, "depth": 1},
    "without grouping": {"depth": 0},
    "without devices' times": {"features": PAPER_FEATURES, "cost_weight": 0.0},
}
"""Options that leave out a part of the preset ``rl``."""
Latencies = dict[str, dict[str, float]]
"""Method -> model -> ms."""


def list_raw() -> Iterator[Row]:
    """Runs on raw graphs, of the RNN placer not on the largest."""
    arms, units = [arm for arm in ARMS if arm != RNN], [SMALLER]
    yield from combine(seed=range(5), model=MODELS, granularity=units, arm=arms, budget=[2000])
    yield from combine(seed=[0], model=MODELS[:2], granularity=units, arm=[RNN], budget=[200])


def run_raw(seed: int, model: str, granularity: str, arm: str, budget: int) -> Row:
    """Run an agent on every node of the fp16 IR; add single-device latencies and the optimum."""
    kwargs = {"devices": DEVICES, "graph": "raw", "granularity": granularity}
    env = make_env(model, **kwargs, observe_graph=False)
    row = learn_in(env, ARMS[arm], seed, budget)
    single_ms = [float(one.latency_ms) for one in env.singles.measurements if one is not None]
    return row | {"single_ms": single_ms, "optimum_ms": find_optimum_ms(env)}


def find_optimum_ms(env: DevicePlacementEnv) -> float:
    """Latency of the minimum cut, which is optimal on two devices without limits, in ms."""
    found = minimum_cut(env.problem.units, env.cost_table())
    return float(env.backend.evaluate(found.assignment).latency_ms)


def list_variants() -> Iterator[Row]:
    return combine(seed=range(5), problem=SMALL, part=PARTS, budget=[500])


def run_variant(seed: int, problem: str, part: str, budget: int) -> Row:
    env = learning.load(problem)
    agent = AgentSpec("hsdag", {"policy": PARTS[part]})
    return learn_in(env, agent, seed, budget) | {"optimum_ms": find_optimum_ms(env)}


def best_ms(row: Row) -> float:
    return float(row["best_ms"][str(row["budget"])])


def collect(rows: Sequence[Row]) -> Latencies:
    """Mean best latency of each method on raw graphs, ms."""
    found: Latencies = {name: {} for name in (*SINGLE, *ARMS, OPTIMUM)}
    runs = [row for row in rows if row.get("granularity") == SMALLER and row["arm"] in ARMS]
    for (model, arm), mine in group_by(runs, "model", "arm").items():
        found[arm][model] = float(np.mean([best_ms(row) for row in mine]))
        found[OPTIMUM][model] = mine[0]["optimum_ms"]
        for name, device in SINGLE.items():
            found[name][model] = mine[0]["single_ms"][device]
    return {name: values for name, values in found.items() if values}


def read_published() -> Latencies:
    known = Study.load("paper").published.items()
    return {name: {f"{m}-fp16": ms for m, ms in values.items()} for name, values in known}


def gain(found: Latencies, method: str, model: str, over: str = "CPU-only") -> float:
    """How much lower a latency is than on one device, in %."""
    return 100.0 * (1.0 - found[method][model] / found[over][model])


def list_gains(rows: Sequence[Row]) -> list[Row]:
    """The paper's Table 2: the gain of each method over the CPU, published and ours."""
    ours, published = collect(rows), read_published()

    def describe(found: Latencies, method: str, model: str) -> str:
        if model not in found.get(method, {}):
            return "-"
        return f"{gain(found, method, model):.1f} ({found[method][model]:.4g})"

    return [
        {"method": method}
        | {
            f"{model.removesuffix('-fp16')}, {whose}": describe(found, method, model)
            for model in MODELS
            for whose, found in (("published", published), ("here", ours))
        }
        for method in ours
    ]


def list_claims(rows: Sequence[Row]) -> list[Row]:
    """The figures of the paper's text, from its table and from our runs."""

    def measure(found: Latencies, method: str) -> dict[str, float]:
        gains = np.array([gain(found, method, model) for model in MODELS])
        placetos = [gain(found, PLACETO, model) for model in MODELS]
        over_single = {
            f"over best single, {model.removesuffix('-fp16')}": min(
                gain(found, method, model, over) for over in ("CPU-only", "GPU-only")
            )
            for model in MODELS
        }
        return {
            "over CPU-only, most": gains.max(),
            "less Placeto's, most": (gains - placetos).max(),
            **over_single,
        }

    ours = collect(rows)
    methods = [name for name in ours if name not in (*SINGLE, PLACETO, RNN)]
    columns = {"published": measure(read_published(), HSDAG)}
    columns |= {name: measure(ours, name) for name in methods}
    return [
        {"claim": claim} | {name: f"{values[claim]:.2f}" for name, values in columns.items()}
        for claim in columns["published"]
    ]


def list_parts(rows: Sequence[Row]) -> list[Row]:
    """How far the best placement of each variant of ``rl`` is above the optimum, %."""

    def describe(mine: list[Row]) -> str:
        above = [100.0 * (best_ms(row) / row["optimum_ms"] - 1.0) for row in mine]
        return f"{np.mean(above):.1f} ({min(above):.1f} to {max(above):.1f})"

    columns = {"variant": first("part"), **pivot(rows, "problem", describe)}
    return tabulate(rows, ["part"], columns | {"CPU s": number("cpu_s", ".1f")})


TABLES: Tables = {"gains": list_gains, "claims": list_claims, "parts": list_parts}


if __name__ == "__main__":
    run_benchmark(__doc__, {"raw": (list_raw, run_raw), "parts": (list_variants, run_variant)})
