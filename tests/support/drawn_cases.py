"""Graphs, costs, semantics and placements drawn for comparisons with the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from by_hand import cost_table, grouped, made_graph

from placement_gym.base import FloatArray, UInt8
from placement_gym.graph import OpGraph, Units
from placement_gym.problem.costs import CHOICES, CostTable, Semantics

MAX_OPERATORS = 14
RNG = np.random.Generator


class Case(NamedTuple):
    units: Units
    costs: CostTable
    semantics: Semantics
    placement: UInt8


def generators(n_cases: int) -> Iterator[tuple[int, RNG]]:
    """The maximum number of operators, small graphs first, and a generator for each case."""
    for seed in range(n_cases):
        yield 1 + seed * MAX_OPERATORS // n_cases, np.random.default_rng(seed)


def draw_graph(rng: RNG, max_operators: int) -> OpGraph:
    """A graph whose operators make any number of tensors, listed in any order."""
    n = int(rng.integers(1, max_operators + 1))
    n_tensors = int(rng.integers(0, 2 * n + 1)) if n > 1 else 0
    return made_graph(n, [draw_tensor(rng, n) for _ in range(n_tensors)])


def draw_tensor(rng: RNG, n: int) -> tuple[int, list[int]]:
    """The source and one to four readers of a tensor in a graph of ``n`` operators."""
    source = int(rng.integers(n - 1))
    readers = rng.integers(source + 1, n, rng.integers(1, 5))
    return source, sorted(set(readers.tolist()))


def draw_typed_graph(rng: RNG, max_operators: int) -> OpGraph:
    """A graph with Constants, Parameters and Results around operators that compute."""
    graph = draw_graph(rng, max_operators)
    n, types = len(graph), ["Relu"] * len(graph)
    for i in range(n):
        if not graph.in_degree()[i]:
            types[i] = str(rng.choice(["Relu", "Constant", "Parameter"]))
        elif not graph.out_degree()[i]:
            types[i] = str(rng.choice(["Relu", "Result"]))
    if "Relu" not in types:
        types[int(rng.integers(n))] = "Relu"
    readers = [rng.permutation(n)[: rng.integers(5)] for _ in range(rng.integers(4))]
    inputs = tuple(tuple(sorted(group.tolist())) for group in readers)
    return replace(graph, types=tuple(types), inputs=inputs)


def draw_units(rng: RNG, graph: OpGraph) -> Units:
    """Operators alone, or any partition, so that units may read each other in a circle."""
    n = len(graph)
    labels = np.arange(n) if rng.random() < 0.5 else rng.integers(0, rng.integers(1, n + 1), n)
    return grouped(graph, np.unique(labels, return_inverse=True)[1])


def draw_costs(rng: RNG, graph: OpGraph, most_devices: int = 4) -> CostTable:
    """Costs on one or more devices: small whole numbers that tie, or any floats."""
    d, ties = int(rng.integers(1, most_devices + 1)), rng.random() < 2 / 3

    def table(*shape: int) -> FloatArray:
        return rng.integers(0, 4, shape).astype(float) if ties else 10 * rng.random(shape)

    return cost_table(
        graph,
        table(len(graph), d),
        table(len(graph.tensors.source)),
        table(d, d),
        table(d, d),
        table(d) * rng.integers(2),
        rng.random(d) < 0.5,
    )


def draw_semantics(rng: RNG, schedule: str, contention: str | None) -> Semantics:
    """Any valid axes beside the given ones."""
    if schedule not in ("event", "list"):
        return Semantics(schedule, memory=str(rng.choice(["off", "static"])))
    contention = contention or str(rng.choice(CHOICES["contention"]))
    transfers = CHOICES["transfer"] if contention in ("none", "source") else ("dest", "edge")
    return Semantics(
        schedule,
        transfer=str(rng.choice(transfers)),
        contention=contention,
        order=str(rng.choice(CHOICES["order"])),
        op_gap_ms=float(rng.choice([0.0, 1.0, 0.3])),
        link_gap_ms=float(rng.choice([0.0, 1.0, 0.3])),
        memory=str(rng.choice(CHOICES["memory"])),
    )


def draw_case(rng: RNG, max_operators: int, schedule: str, contention: str | None = None) -> Case:
    graph = (draw_typed_graph if rng.random() < 0.5 else draw_graph)(rng, max_operators)
    units, costs = draw_units(rng, graph), draw_costs(rng, graph)
    placement = rng.integers(0, len(costs.devices), len(units), dtype=np.uint8)
    return Case(units, costs, draw_semantics(rng, schedule, contention), placement)


def cases(n_cases: int, schedule: str, contention: str | None = None) -> Iterator[Case]:
    """The same cases in every run, small graphs first."""
    for size, rng in generators(n_cases):
        yield draw_case(rng, size, schedule, contention)
