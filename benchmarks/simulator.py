"""The simulator's speed: against plain Python, by size of the graph, and within a step.

    python benchmarks/simulator.py --data DIR

DIR holds the inputs of dnn-partitioning; without it there is no comparison with plain Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import openvino.opset13 as ops
from common import make_env
from rich.console import Console
from rich.table import Table

from placement_gym.envs.observation import compute_node_features
from placement_gym.graph.extract import extract
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.synthetic import synthetic
from placement_gym.graph.units import group
from placement_gym.hardware.device_requests import make_devices, parse_devices
from placement_gym.problem.costs.analytic import analytic
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.costs.workloads import Workload
from placement_gym.problem.problem import Problem
from placement_gym.schedules.simulator import Simulator

BERT = "latency-inputs/OperatorGraphs/bert_l-12_inference"
SIZES = (1000, 3000, 10_000, 30_000, 80_000)
K = 256
"""Placements of a comparison."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--largest", type=int, default=80_000, help="operators (%(default)s)")
    options = parser.parse_args()
    if options.data:
        compare_with_python(options.data)
    time_growth([n for n in SIZES if n <= options.largest])
    time_overhead()


def compare_with_python(data: Path) -> None:
    """Time kernels and a short heapq program of the event schedule, in turns on equal placements.

    The oracle of the tests is no baseline: it is written to be read, and several times slower.
    """
    workload = Workload.load(data / f"{BERT}.json")
    units, costs = workload.units("op"), workload.costs(make_devices(1, 1))
    placements = random_placements(len(units))
    lists = placements.tolist()
    plain = make_plain_event(workload.graph, costs)
    known = Simulator(units, costs, PRESETS["event"]).latencies_ms(placements)
    assert [plain(one) for one in lists] == known.tolist()
    table = Table("schedule", "kernel, us", "ratio", "batched, us", "ratio", "bitwise equal")
    for name in ("event", "list", "serial", "placeto", "giph", "baechi"):
        simulator = Simulator(units, costs, PRESETS[name])
        single = np.array([simulator.latency_ms(placement) for placement in placements])
        equal = (simulator.latencies_ms(placements) == single).all()
        slow, fast, batched = time_best_us(
            call_on_each(plain, lists),
            call_on_each(simulator.latency_ms, placements),
            partial(simulator.latencies_ms, placements),
        )
        table.add_row(
            name,
            f"{fast / K:.1f}",
            f"{slow / fast:.0f}",
            f"{batched / K:.2f}",
            f"{slow / batched:.0f}",
            "yes" if equal else "NO",
        )
    table.title = f"{BERT}: {len(units)} nodes, against {slow / K:.0f} us of plain heapq (event)"
    Console(width=120).print(table)


def make_plain_event(graph: OpGraph, costs: CostTable) -> Callable[[Sequence[int]], float]:
    """Make a function from operators' devices to the latency in ms under preset ``event``.

    A short Python program, without gaps and all else that schedules can have.
    """
    ms, transfer_ms = costs.operator_ms.tolist(), costs.transfer_ms.tolist()
    offsets, readers = graph.tensors.offsets.tolist(), graph.tensors.readers.tolist()
    made: list[list[tuple[int, list[int]]]] = [[] for _ in ms]
    inputs = [0] * len(ms)
    for t, source in enumerate(graph.tensors.source.tolist()):
        made[source].append((t, readers[offsets[t] : offsets[t + 1]]))
        for reader in made[source][-1][1]:
            inputs[reader] += 1
    n_devices = costs.operator_ms.shape[1]
    sources = [i for i, n in enumerate(inputs) if n == 0]

    def latency_ms(place: Sequence[int]) -> float:
        missing = inputs.copy()
        free, link_free = [0.0] * n_devices, [0.0] * n_devices
        events: list[tuple[float, int, int, int, list[int] | None]] = []
        order, now, ready = 0, 0.0, list(sources)
        while True:
            for i in ready:
                here = place[i]
                order += 1
                free[here] = max(now, free[here]) + ms[i][here]
                heappush(events, (free[here], n_devices + here, order, i, None))
            if not events:
                return max(*free, *link_free)
            now, _, _, item, arrived = heappop(events)
            ready = []
            if arrived is None:
                here = place[item]
                for t, reading in made[item]:
                    away: dict[int, list[int]] = {}
                    for reader in reading:
                        if place[reader] != here:
                            away.setdefault(place[reader], []).append(reader)
                            continue
                        missing[reader] -= 1
                        if not missing[reader]:
                            ready.append(reader)
                    for there, waiting in away.items():
                        order += 1
                        link_free[here] = max(now, link_free[here]) + transfer_ms[t][here][there]
                        heappush(events, (link_free[here], here, order, t, waiting))
            else:
                for reader in arrived:
                    missing[reader] -= 1
                    if not missing[reader]:
                        ready.append(reader)

    return latency_ms


def time_growth(sizes: Sequence[int]) -> None:
    """Time an operator on layered graphs of 1.6 edges an operator, and on a chain to extract."""
    kinds = ("event", "list", "serial", "batched list", "submodels")
    once = ("extract", "group", "features")
    columns = (f"{kind}, us" for kind in once)
    table = Table("operators", *(f"{kind}, ns" for kind in kinds), *columns, "event, us in all")
    table.title = "synthetic-layered: time an operator"
    devices = parse_devices("cpu+dgpu")
    for n in sizes:
        graph = synthetic(f"synthetic-layered-{n}")
        units = group(graph, "op")
        costs = analytic(graph, devices)
        twins = {kind: Simulator(units, costs, PRESETS[kind]) for kind in kinds[:3]}
        placements = random_placements(n, 32)
        times = time_best_us(
            *(call_on_each(twin.latency_ms, placements) for twin in twins.values()),
            partial(twins["list"].latencies_ms, placements),
            call_on_each(twins["list"].submodels, placements),
        )
        per_placement = [time / len(placements) for time in times]
        problem = Problem(units, devices, costs.units_supported(units))
        prepared = time_best_us(
            partial(extract, chain(n)),
            partial(group, graph, "colocated"),
            partial(compute_node_features, problem, costs.unit_ms(units)),
            rounds=2,
        )
        row = [f"{1e3 * us / n:.1f}" for us in per_placement]
        row += [f"{us / n:.1f}" for us in prepared]
        table.add_row(str(n), *row, f"{per_placement[0]:.0f}")
    Console(width=120).print(table)


def time_overhead() -> None:
    """Time what a step costs beyond what its backend computes for the info."""
    kwargs = {"model": "synthetic-layered-800", "granularity": "op", "observe_graph": False}
    env = make_env(**kwargs)
    env.reset(seed=0)
    backend = env.backend
    actions = [env.action_space.sample() for _ in range(K)]
    step, evaluate = time_best_us(
        call_on_each(env.step, actions), call_on_each(backend.evaluate, actions), rounds=15
    )
    print(
        f"800 units: a step {step / K:.1f} us, its evaluation {evaluate / K:.1f} us, "
        f"overhead {(step - evaluate) / K:.1f} us"
    )
    vector = gym.make_vec("DevicePlacementSim-v0", num_envs=K, **kwargs)
    vector.reset(seed=0)
    batch: Any = vector.action_space.sample()
    (together,) = time_best_us(partial(vector.step, batch), rounds=15)
    print(f"{K} placements a step of the vector env: {together / K:.1f} us each")


def random_placements(n_units: int, k: int = K) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, (k, n_units)).astype(np.uint8)


def chain(n_operators: int) -> ov.Model:
    """Additions, each to the result of the one before and to a constant."""
    first = last = ops.parameter([1, 8], np.float32)
    for _ in range(n_operators):
        last = ops.add(last, np.float32(1.0))
    return ov.Model([last], [first], "chain")


def call_on_each(function: Callable[[Any], object], items: Sequence[Any]) -> Callable[[], None]:
    """Make a function that calls another one on every item."""

    def arm() -> None:
        for item in items:
            function(item)

    return arm


def time_best_us(*arms: Callable[[], object], rounds: int = 5) -> Sequence[float]:
    """Run arms in turns after a warm-up; returns the shortest microseconds of each."""
    best = [float("inf")] * len(arms)
    for arm in arms:
        arm()
    for _ in range(rounds):
        for position, arm in enumerate(arms):
            started = perf_counter()
            arm()
            best[position] = min(best[position], (perf_counter() - started) * 1e6)
    return best


if __name__ == "__main__":
    main()
