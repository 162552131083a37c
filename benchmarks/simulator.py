"""The simulator's speed: by size of the graph, and within a step of the environment.

    python benchmarks/simulator.py
    python benchmarks/simulator.py --largest 0 --rounds 50    # steps alone

Times are the shortest of several rounds, in which what is compared takes turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import openvino.opset13 as ops
from common import make_env, make_parser, print_table

from placement_gym.envs.observation import compute_node_features
from placement_gym.envs.wrappers import PerUnit
from placement_gym.graph.extract import extract
from placement_gym.graph.synthetic import synthetic
from placement_gym.graph.units import group
from placement_gym.hardware.device_requests import parse_devices
from placement_gym.problem.costs.analytic import analytic
from placement_gym.problem.costs.semantics import PRESETS
from placement_gym.problem.problem import Problem
from placement_gym.schedules.simulator import Simulator

SIZES = (1000, 3000, 10_000, 30_000, 80_000)
STEP = {"model": "synthetic-layered-800", "granularity": "op", "observe_graph": False}
K = 256
"""Placements of a comparison."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--largest", type=int, default=80_000, help="operators (%(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="of steps (%(default)s)")
    options = parser.parse_args()
    print_table(time_operators(n) for n in SIZES if n <= options.largest)
    time_steps(options.rounds)


def time_operators(n: int) -> dict[str, str]:
    """Time an operator of a layered graph of 1.6 edges an operator, and of a chain to extract."""
    graph, devices = synthetic(f"synthetic-layered-{n}"), parse_devices("cpu+dgpu")
    units, costs = group(graph, "op"), analytic(graph, devices)
    problem = Problem(units, devices, costs.units_supported(units))
    event, listed, serial = (
        Simulator(units, costs, PRESETS[name]) for name in ("event", "list", "serial")
    )
    placements = np.random.default_rng(0).integers(0, 2, (32, n)).astype(np.uint8)
    evaluated = {
        "event": call_on_each(event.latency_ms, placements),
        "list": call_on_each(listed.latency_ms, placements),
        "serial": call_on_each(serial.latency_ms, placements),
        "batched list": partial(listed.latencies_ms, placements),
        "submodels": call_on_each(listed.submodels, placements),
    }
    prepared = {
        "extract": partial(extract, chain(n)),
        "group": partial(group, graph, "colocated"),
        "features": partial(compute_node_features, problem, costs.unit_ms(units)),
    }
    spent = time_best_us(*evaluated.values())
    once = time_best_us(*prepared.values(), rounds=2)
    each = [us / len(placements) for us in spent]
    return {
        "operators": str(n),
        **{f"{name}, ns": f"{1e3 * us / n:.1f}" for name, us in zip(evaluated, each, strict=True)},
        **{f"{name}, us": f"{us / n:.1f}" for name, us in zip(prepared, once, strict=True)},
        "event, us in all": f"{each[0]:.0f}",
    }


def chain(n_operators: int) -> ov.Model:
    """Additions, each to the result of the one before and to a constant."""
    first = last = ops.parameter([1, 8], np.float32)
    for _ in range(n_operators):
        last = ops.add(last, np.float32(1.0))
    return ov.Model([last], [first], "chain")


def time_steps(rounds: int) -> None:
    """Time what a step costs beyond what its backend computes for the info."""
    env, per_unit = make_env(**STEP), PerUnit(make_env(**STEP))
    vector = gym.make_vec("DevicePlacementSim-v0", num_envs=K, **STEP)
    env.reset(seed=0)
    vector.reset(seed=0)
    backend, actions = env.backend, [env.action_space.sample() for _ in range(K)]
    rows = np.stack(actions)

    def place_units() -> list[np.ndarray]:
        per_unit.reset()
        return [per_unit.step(action[0])[0]["placement"] for action in actions]

    def evaluate_unit(placed: np.ndarray) -> None:
        backend.evaluate(placed)
        backend.start_ms(placed)

    step, evaluate, unit, of_unit, together, batch = (
        us / K
        for us in time_best_us(
            call_on_each(env.step, actions),
            call_on_each(backend.evaluate, actions),
            place_units,
            call_on_each(evaluate_unit, place_units()),
            partial(vector.step, rows),
            partial(backend.evaluate_batch, rows),
            rounds=rounds,
        )
    )
    print_table(
        {
            "800 units": name,
            "us": f"{whole:.1f}",
            "evaluation": f"{part:.1f}",
            "beside it": f"{whole - part:.1f}",
        }
        for name, whole, part in (
            ("a step", step, evaluate),
            ("a step of one unit", unit, of_unit),
            (f"each of {K} in a vector's step", together, batch),
        )
    )


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
