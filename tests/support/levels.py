"""Random problems of any size, with limits, support and tensors of several readers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from by_hand import cost_table, made_graph
from placement_gym.solvers.levels.levels import Level
from placement_gym.solvers.levels.refine import make_state
from placement_gym.solvers.proposals import Proposals

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import parse_schedule
from placement_gym.devices import DeviceSpec
from placement_gym.graph.units import group
from placement_gym.problem import Problem


def random_problem(
    seed: int, n: int, n_devices: int = 3, schedule: str = "serial"
) -> SimulatedBackend:
    """``n`` operators that read up to three tensors of the ten operators before them."""
    rng = np.random.default_rng(seed)
    readers: dict[int, list[int]] = {}
    for reader in range(1, n):
        near = np.arange(max(reader - 10, 0), reader)
        for source in rng.choice(
            near, min(len(near), int(rng.integers(4))), replace=False
        ).tolist():
            readers.setdefault(source, []).append(reader)
    graph = made_graph(n, sorted(readers.items()))
    costs = cost_table(
        graph,
        np.exp(rng.normal(size=(n, n_devices))),
        rng.random(len(readers)) * 2,
        link_ms=rng.random((n_devices, n_devices)),
        link_ms_per_size=rng.random((n_devices, n_devices)),
    )
    limits = [None, *(float(share) for share in rng.choice([0.2, 0.4, 0.7], n_devices - 1))]
    devices = [
        DeviceSpec(name, weight_share=s) for name, s in zip(costs.devices, limits, strict=True)
    ]
    supported = rng.random((n, n_devices)) < 0.9
    supported[:, 0] = True
    problem = Problem(group(graph, "op"), tuple(devices), supported, rng.integers(0, 100, n))
    return SimulatedBackend(problem, costs, parse_schedule(schedule, "latency"))


def random_places(rng: np.random.Generator, possible: np.ndarray, k: int) -> IntArray:
    """(k, n) random devices that are possible."""
    return (rng.random((k, *possible.shape)) * possible).argmax(axis=2)


def serial_ms(level: Level, place: IntArray) -> float:
    """The serial latency of a level's placement."""
    state = make_state(level, place.copy(), np.zeros(level.ms.shape[1]))
    return float(state.total_ms[0])


def scorer(
    backend: SimulatedBackend, seen: list[IntArray] | None = None
) -> Callable[[IntArray], FloatArray]:
    """A function from (k, n_units) placements, which ``seen`` gets, to latencies or infinity."""

    def evaluate(placements: IntArray) -> FloatArray:
        if seen is not None:
            seen.extend(placements)
        ms, feasible = backend.evaluate_batch_exactly(placements)
        return np.where(feasible, ms, np.inf)

    return evaluate


def follow(
    proposals: Proposals, evaluate: Callable[[IntArray], FloatArray], evaluations: int
) -> IntArray:
    """The fastest of the first proposals that the evaluations allow."""
    tried, latencies = next(proposals), np.empty(0)
    while len(latencies) < evaluations:
        new = tried[len(latencies) :][: evaluations - len(latencies)]
        reached = evaluate(new)
        latencies = np.concatenate([latencies, reached])
        if len(latencies) == len(tried) < evaluations:
            tried = np.concatenate([tried, proposals.send(reached)])
    best: IntArray = tried[latencies.argmin()]
    return best
