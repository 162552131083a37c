"""HSDAG's Table 2 on graphs of the size of its Table 1.

    python benchmarks/hsdag.py raw --rows rows.jsonl            # runs what has no row yet
    python benchmarks/hsdag.py parts --rows parts-rows.jsonl

Devices are ``hsdag-paper``, whose single-device latencies are the published ones. Learned agents
and annealing begin with random placements. Latencies of tables are in ms, of the best placement
where nothing else is said, and means over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
HSDAG, RL, PLACETO, RNN = "HSDAG", "HSDAG, rl", "Placeto", "RNN-based"
SINGLES = "HSDAG, rl without grouping"
GROUPS, ANNEALING, OPTIMUM = "graph-groups", "annealing", "proven optimum"
ARMS: dict[str, AgentSpec] = {
    HSDAG: AgentSpec("hsdag", {"preset": "paper"}),
    RL: AgentSpec("hsdag"),
    GROUPS: AgentSpec(GROUPS),
    SINGLES: AgentSpec("hsdag", {"policy": {"depth": 0}}),
    ANNEALING: AgentSpec("annealing", {"start": "random"}),
    PLACETO: AgentSpec("placeto", {"preset": "paper"}),
    RNN: AgentSpec("rnn", {"preset": "paper"}),
}
"""In the order of the tables."""
SINGLE = {"CPU-only": 0, "GPU-only": 1, "OpenVINO-CPU": 0, "OpenVINO-GPU": 1}
"""Number of the device; OpenVINO's own choices put the whole model on one, as ``hsdag-paper``
supports all operators on both."""
PARTS: dict[str, dict[str, Any]] = {
    "rl": {},
    "without gate": {"gate": False},
    "groups left to the scores": {"refine": 0.0},
    "all dominant edges kept, one level": {"groups": 0.0, "depth": 1},
    "without grouping": {"depth": 0},
    "without devices' times": {"features": PAPER_FEATURES, "cost_weight": 0.0},
}
"""Options of the preset ``rl`` that leave out a part of it."""
Latencies = dict[str, dict[str, float]]
"""Method -> model -> ms."""


def list_raw() -> Iterator[Row]:
    """Runs on raw graphs: the RNN placer, which takes minutes, is not run on the largest."""
    arms, units = [arm for arm in ARMS if arm != RNN], [SMALLER]
    yield from combine(seed=range(5), model=MODELS, granularity=units, arm=arms, budget=[2000])
    yield from combine(seed=[0], model=MODELS[:2], granularity=units, arm=[RNN], budget=[200])


def run_raw(seed: int, model: str, granularity: str, arm: str, budget: int) -> Row:
    """A run on every node of the fp16 IR, with the latencies of single devices and the optimum."""
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
    """Mean best latency on raw graphs in ms, of methods that ran."""
    found: Latencies = {name: {} for name in (*SINGLE, *ARMS, OPTIMUM)}
    for (model, arm), mine in group_by(of_raw(rows), "model", "arm").items():
        found[arm][model] = float(np.mean([best_ms(row) for row in mine]))
        found[OPTIMUM][model] = mine[0]["optimum_ms"]
        for name, device in SINGLE.items():
            found[name][model] = mine[0]["single_ms"][device]
    return {name: values for name, values in found.items() if values}


def of_raw(rows: Sequence[Row]) -> list[Row]:
    """Those after the paper's co-location, of arms that can be run."""
    return [row for row in rows if row.get("granularity") == SMALLER and row["arm"] in ARMS]


def read_published() -> Latencies:
    known = Study.load("paper").published.items()
    return {name: {f"{m}-fp16": ms for m, ms in values.items()} for name, values in known}


def gain(found: Latencies, method: str, model: str, over: str = "CPU-only") -> float:
    """How much shorter than on the CPU alone, in %."""
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
    """The paper's figures, from its own table and from our runs."""
    ours, published = collect(rows), read_published()
    methods = [name for name in ours if name not in (*SINGLE, PLACETO, RNN)]
    sources = {"published": (published, HSDAG), **{name: (ours, name) for name in methods}}
    gains = {name: [gain(*source, model) for model in MODELS] for name, source in sources.items()}
    placetos = {
        name: [gain(found, PLACETO, model) for model in MODELS]
        for name, (found, _) in sources.items()
    }

    def write(claim: str, value: Callable[[str], float]) -> Row:
        return {"claim": claim} | {name: f"{value(name):.2f}" for name in sources}

    def over_single(model: str, name: str) -> float:
        return min(gain(*sources[name], model, over) for over in ("CPU-only", "GPU-only"))

    return [
        write("over CPU-only, most", lambda name: max(gains[name])),
        write(
            "less Placeto's, most",
            lambda name: max(np.subtract(gains[name], placetos[name])),
        ),
        *(
            write(f"over best single, {model.removesuffix('-fp16')}", partial(over_single, model))
            for model in MODELS
        ),
    ]


def list_parts(rows: Sequence[Row]) -> list[Row]:
    """How far the best placement of each variant of ``rl`` is above the optimum, %."""

    def describe(mine: list[Row]) -> str:
        above = [100.0 * (best_ms(row) / row["optimum_ms"] - 1.0) for row in mine]
        return f"{np.mean(above):.1f} ({min(above):.1f} to {max(above):.1f})"

    columns = {"variant": first("part"), **pivot(rows, "problem", describe)}
    return tabulate(rows, ["part"], columns | {"CPU s": number("cpu_s", ".1f")})


TABLES: Tables = {
    "gains": list_gains,
    "claims": list_claims,
    "parts": list_parts,
}
"""Name -> the table on the page."""


if __name__ == "__main__":
    run_benchmark(__doc__, {"raw": (list_raw, run_raw), "parts": (list_variants, run_variant)})
