"""The speed of the simulator by size of the graph, and of steps of environments.

    python benchmarks/simulator.py
    python benchmarks/simulator.py --largest 0    # steps alone

Prints the shortest CPU times of several rounds, in which what is compared takes turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import thread_time
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import openvino.opset13 as ops
from common import make_env, make_parser
from summaries import print_table

from placement_gym.envs import PerUnitEnv
from placement_gym.envs.observation import compute_node_features
from placement_gym.graph import group
from placement_gym.graph.extraction import extract
from placement_gym.graph.synthetic import synthetic
from placement_gym.hardware import parse_devices
from placement_gym.problem import Problem
from placement_gym.problem.costs import PRESETS, analytic
from placement_gym.schedules import Simulator

SIZES = (1000, 3000, 10_000, 30_000, 80_000)
STEP = {"model": "synthetic-layered-800", "granularity": "op", "observe_graph": False}
BY_UNIT = "DevicePlacementPerUnitSim-v0"
UNIT_FORMS: dict[str, dict[str, Any]] = {
    "graph": {},
    "without edges": {"observe_graph": False},
    "flat": {"observe": "flat"},
}
"""Observations by unit."""
UNIT_ENVS, UNIT_ROUNDS = 16, 20
ACTIONS, NUM_ENVS, ROUNDS = 16, 256, 300
"""Steps of a turn, so few that many turns are not interrupted, and rounds."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--largest", type=int, default=80_000, help="operators (%(default)s)")
    options = parser.parse_args()
    print_table(time_operators(n) for n in SIZES if n <= options.largest)
    print_table(time_steps())
    print_table(time_units())


def time_operators(n: int) -> dict[str, str]:
    """Time an operator of a layered graph with 1.6 edges an operator, and of a chain to extract."""
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
    """A chain of additions of a constant."""
    first = last = ops.parameter([1, 8], np.float32)
    for _ in range(n_operators):
        last = ops.add(last, np.float32(1.0))
    return ov.Model([last], [first], "chain")


def time_steps() -> Iterator[dict[str, str]]:
    env, per_unit = make_env(**STEP), PerUnitEnv(make_env(**STEP))
    vector: Any = gym.make_vec("DevicePlacementSim-v0", num_envs=NUM_ENVS, **STEP)
    for one in (env, per_unit, vector):
        one.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(ACTIONS)]
    rows = np.stack([actions[i % ACTIONS] for i in range(NUM_ENVS)])

    def place_unit(unit: int) -> None:
        per_unit.current = unit
        per_unit.step(1)

    arms = {
        "an evaluation": (call_on_each(env.backend.evaluate, actions), ACTIONS),
        "a step": (call_on_each(env.step, actions), ACTIONS),
        "a step of one unit": (call_on_each(place_unit, range(ACTIONS)), ACTIONS),
        f"each of {NUM_ENVS} in a vector's step": (partial(vector.step, rows), NUM_ENVS),
    }
    spent = time_best_us(*(arm for arm, _ in arms.values()), rounds=ROUNDS)
    for (name, (_, n)), us in zip(arms.items(), spent, strict=True):
        yield {"800 units": name, "us": f"{us / n:.1f}"}


def time_units() -> Iterator[dict[str, str]]:
    """Time episodes of one unit a step, in one environment and in several at once."""
    for form, options in UNIT_FORMS.items():
        kwargs = {"model": "inception", "devices": "hsdag-paper"} | options
        one: Any = gym.make(BY_UNIT, **kwargs).unwrapped
        many = gym.make_vec(BY_UNIT, UNIT_ENVS, **kwargs)
        many.reset(seed=0)
        n_units = one.problem.n_units
        actions = [many.action_space.sample() for _ in range(n_units)]

        def play(one: Any = one, actions: Sequence[Any] = actions) -> None:
            one.reset()
            for each in actions:
                one.step(each[0])

        arms = play, call_on_each(many.step, actions)
        alone, together = time_best_us(*arms, rounds=UNIT_ROUNDS)
        yield {
            f"{n_units} units": form,
            "a step of one, us": f"{alone / n_units:.0f}",
            f"of {UNIT_ENVS}, us": f"{together / n_units:.0f}",
            "times as many a second": f"{UNIT_ENVS * alone / together:.1f}",
        }


def call_on_each(function: Callable[[Any], object], items: Sequence[Any]) -> Callable[[], None]:

    def arm() -> None:
        for item in items:
            function(item)

    return arm


def time_best_us(*arms: Callable[[], object], rounds: int = 5) -> Sequence[float]:
    """Run arms in turns after a warm-up; return the shortest time of each in microseconds."""
    best = [float("inf")] * len(arms)
    for arm in arms:
        arm()
    for _ in range(rounds):
        for position, arm in enumerate(arms):
            started = thread_time()
            arm()
            best[position] = min(best[position], (thread_time() - started) * 1e6)
    return best


if __name__ == "__main__":
    main()
