"""The simulator: published values, speed against plain Python, growth, overhead and fidelity."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import openvino.opset13 as ops
from plain_heapq import make_plain_event
from rich.console import Console
from rich.table import Table

import placement_gym  # noqa: F401  registers the environments
from placement_gym.backends.simulated.backend import uint8
from placement_gym.cli.tables import fidelity_table
from placement_gym.costs.analytic import analytic
from placement_gym.costs.semantics import PRESETS
from placement_gym.costs.workloads import Workload, make_devices
from placement_gym.devices import parse_devices
from placement_gym.env import placement_env
from placement_gym.graph.extract import extract
from placement_gym.graph.synthetic import synthetic
from placement_gym.graph.units import group
from placement_gym.observation import compute_node_features
from placement_gym.problem import Problem
from placement_gym.schedules.simulator import Simulator
from placement_gym.tools.fidelity import fidelity

PUBLISHED = {
    "throughput-inputs/LayerGraphs/bert24_inference": (92.406, 20.084),
    "throughput-inputs/LayerGraphs/bert24_training": (217.813, 49.4049),
    "throughput-inputs/LayerGraphs/resnet50_inference": (201.45, 43.9183),
    "throughput-inputs/LayerGraphs/resnet50_training": (462.381, None),
    "throughput-inputs/OperatorGraphs/bert_l-3_inference": (49.3526, None),
    "throughput-inputs/OperatorGraphs/bert_l-3_training": (122.987, None),
    "throughput-inputs/OperatorGraphs/resnet50_inference": (325.132, None),
    "latency-inputs/LayerGraphs/bert24_inference": (None, 111.937),
}
"""Latency on one accelerator and of the experts' split, in ms (Tarnawski et al. 2020)."""

BERT = "latency-inputs/OperatorGraphs/bert_l-12_inference"
K = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="folder of the dnn-partitioning repository's inputs"
    )
    parser.add_argument(
        "--fidelity",
        nargs="*",
        default=[],
        metavar="MODEL",
        help="also measure how well the profiled twin predicts; ten minutes a model",
    )
    options = parser.parse_args()
    if options.data:
        compare_with_published(options.data)
        compare_with_python(options.data)
    else:
        print("Without --data there are no published values and no comparison with plain heapq.")
    time_growth()
    time_overhead()
    for model in options.fidelity:
        Console(width=120).print(fidelity_table(fidelity(model, "cpu-testbed", refresh=True)))


def compare_with_published(data: Path) -> None:
    table = Table("workload", "placement", "published", "ours", title="dnn-partitioning")
    for name, (single, expert) in PUBLISHED.items():
        workload = Workload.load(data / f"{name}.json")
        placements = {"one accelerator": (single, np.ones(len(workload.graph), dtype=np.int64))}
        if expert is not None:
            path = data / f"human-experts/{Path(name).name}_expert.json"
            placements["experts' split"] = (expert, workload.read_split(path))
        for kind, (published, split) in placements.items():
            if published is not None:
                costs = workload.costs(make_devices(1, int(split.max())))
                preset = PRESETS["tarnawski-" + name.split("-")[0]]
                ours = Simulator(workload.units("op"), costs, preset).latency_ms(uint8(split))
                table.add_row(name, kind, f"{published:.6g}", f"{ours:.6g}")
    Console(width=120).print(table)


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


def time_growth() -> None:
    """Time an operator on layered graphs of 1.6 edges an operator, and on a chain to extract."""
    kinds = ("event", "list", "serial", "batched list", "submodels")
    once = ("extract", "group", "features")
    columns = (f"{kind}, us" for kind in once)
    table = Table("operators", *(f"{kind}, ns" for kind in kinds), *columns, "event, us in all")
    table.title = "synthetic-layered: time an operator"
    devices = parse_devices("cpu+dgpu")
    for n in (1000, 3000, 10_000, 30_000, 80_000):
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
    env = gym.make(
        "DevicePlacementSim-v0",
        model="synthetic-layered-800",
        granularity="op",
        observe_graph=False,
    )
    env.reset(seed=0)
    backend = placement_env(env).backend
    actions = [env.action_space.sample() for _ in range(K)]
    step, evaluate = time_best_us(
        call_on_each(env.step, actions), call_on_each(backend.evaluate, actions), rounds=15
    )
    print(
        f"800 units: a step {step / K:.1f} us, its evaluation {evaluate / K:.1f} us, "
        f"overhead {(step - evaluate) / K:.1f} us"
    )
    vector = gym.make_vec(
        "DevicePlacementSim-v0",
        num_envs=K,
        model="synthetic-layered-800",
        granularity="op",
        observe_graph=False,
    )
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
