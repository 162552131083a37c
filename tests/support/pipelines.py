# White-box tests of solvers.pipelines
"""Pipelines for tests: published and drawn problems, and two slow ways to the best split."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import networkx as nx
import numpy as np
from by_hand import cost_table, draw_made, every_placement, grouped, made_graph, problem_of

from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import IntArray
from placement_gym.problem.costs import PRESETS
from placement_gym.solvers.pipelines import BY_CUT, Forward
from placement_gym.solvers.pipelines.ideal_stages import ADDED

THROUGHPUT = PRESETS["tarnawski-throughput"]


def draw_backend(
    seed: int,
    n: int,
    kinds: str = "ABB",
    limited: bool = False,
    refused: float = 0.0,
    coloured: bool = False,
    training: bool = False,
    idle: float = 0.0,
) -> SimulatedBackend:
    """A drawn pipeline problem.

    Args:
        seed: Of the random numbers.
        n: Number of operators.
        kinds: A letter for each device; devices of one letter are alike, ``A`` is the host.
        limited: Whether devices but the hosts have too little memory for the model.
        refused: Share of units that a kind but the host's does not support.
        coloured: Whether some operators are one unit, perhaps in a cycle with others.
        training: Whether a part of the operators is a backward pass.
        idle: Share of operators that take no time.
    """
    rng = np.random.default_rng(seed)
    made = draw_made(rng, n, share=0.3)
    types = ["Backward" if training and 2 * v >= n else "Forward" for v in range(n)]
    graph = made_graph(n, made, types=types)
    labels = rng.integers(0, n, n) if coloured else np.arange(n)
    units = grouped(graph, np.unique(labels, return_inverse=True)[1])
    letters = sorted(set(kinds))
    column = [letters.index(kind) for kind in kinds]
    ms = rng.integers(1, 9, (n, len(letters))) * (rng.random((n, 1)) >= idle)
    host = [kind == "A" for kind in kinds]
    costs = cost_table(graph, ms[:, column], 3 * rng.random(len(graph.tensors.source)), host=host)
    limits = [0.5 if limited and not is_host else None for is_host in host]
    supported = rng.random((len(units), len(letters))) >= refused
    supported[:, 0] = True
    held = rng.integers(0, 100, n)
    problem = problem_of(units, costs, held, supported[:, column], weight_share=limits)
    return SimulatedBackend(problem, costs, THROUGHPUT)


def is_pipeline(backend: SimulatedBackend, assignment: IntArray) -> bool:
    """Whether devices can be put in an order in which nothing of the forward pass flows back.

    Backward operators that no forward one accompanies flow in the reverse direction.
    """
    units = backend.problem.units
    backward = np.array([kind == "Backward" for kind in units.graph.types])
    alone = np.array([backward[units.of_operator == unit].all() for unit in range(len(units))])
    flow = nx.DiGraph()
    for source, target in units.graph.edge_index.T:
        here, there = (int(assignment[units.of_operator[v]]) for v in (source, target))
        mirrored = backward[source] and backward[target]
        if mirrored and alone[units.of_operator[[source, target]]].any():
            flow.add_edge(there, here)
        elif not backward[source] and not backward[target]:
            flow.add_edge(here, there)
    flow.remove_edges_from(list(nx.selfloop_edges(flow)))
    return nx.is_directed_acyclic_graph(flow)


def least_load_ms(backend: SimulatedBackend) -> float:
    """The smallest maximum load of all assignments that are pipelines; infinite without one."""
    problem = backend.problem
    possible = (
        one
        for one in every_placement(problem)
        if not problem.infeasibility(one) and is_pipeline(backend, one)
    )
    return min(
        (backend.evaluate_ignoring_limits(one).latency_ms for one in possible), default=np.inf
    )


Ideal = frozenset[int]


def all_ideals(forward: Forward) -> list[Ideal]:
    """All ideals, smaller ones first."""
    needs: list[set[int]] = [set() for _ in range(len(forward))]
    for source, target in forward.edge_index.T.tolist():
        needs[target].add(source)
    found, layer = [], {frozenset[int]()}
    while layer:
        found += sorted(layer, key=sorted)
        layer = {
            ideal | {node}
            for ideal in layer
            for node in range(len(forward))
            if node not in ideal and needs[node] <= ideal
        }
    return found


def plain_pipeline_ms(backend: SimulatedBackend, transfers: int = ADDED) -> float:
    """The smallest maximum load by the published recursion, device by device, all pairs."""
    problem = backend.problem
    forward = Forward.from_units(problem.units)
    ideals = all_ideals(forward)
    load = make_load(backend, forward, transfers)
    best: dict[tuple[int, Ideal], float] = {(0, ideals[0]): 0.0}
    n_devices = len(problem.devices)
    for used, larger in product(range(1, 1 << n_devices), ideals):
        value = best.get((used, larger), np.inf)
        for device in (device for device in range(n_devices) if used >> device & 1):
            for smaller in ideals:
                before = best.get((used - (1 << device), smaller), np.inf)
                if smaller <= larger and before < value:
                    value = min(value, max(before, load(smaller, larger, device)))
        best[used, larger] = value
    return best[(1 << n_devices) - 1, ideals[-1]]


def make_load(
    backend: SimulatedBackend, forward: Forward, transfers: int
) -> Callable[[Ideal, Ideal, int], float]:
    """A function that adds up the load of the stage between two ideals on a device.

    It is infinite if it is impossible.
    """
    problem, costs = backend.problem, backend.costs
    tensors = problem.units.graph.tensors
    node = forward.node[problem.units.of_operator]
    touched = [
        {int(node[v]) for v in (source, *tensors.readers[first:stop])}
        for source, first, stop in zip(
            tensors.source, tensors.offsets, tensors.offsets[1:], strict=False
        )
    ]
    unit_ms = costs.unit_ms(problem.units)

    @cache
    def load_ms(smaller: Ideal, larger: Ideal, device: int) -> float:
        stage = larger - smaller
        units = np.isin(forward.node, sorted(stage))
        fits = problem.unit_bytes[units].sum() <= problem.limits_bytes[device]
        if not fits or not problem.supported[units, device].all():
            return np.inf

        def moved_ms(side: Ideal) -> float:
            crossing = [bool(nodes & side) and not nodes <= side for nodes in touched]
            return float(costs.boundary_ms[crossing, device].sum())

        work_ms = float(unit_ms[units, device].sum())
        if transfers == BY_CUT:
            return max(work_ms, moved_ms(smaller), moved_ms(larger))
        return work_ms + moved_ms(stage)

    return load_ms
