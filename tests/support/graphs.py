"""Graphs and problems made by hand or at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from by_hand import chain as chain
from by_hand import made_graph
from hypothesis import strategies as st

from placement_gym.backends.simulated import SimulatedBackend, build_simulated_problem
from placement_gym.base import IntArray
from placement_gym.graph import OpGraph, Units, group
from placement_gym.hardware import DeviceSpec
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import Semantics

TWO_DEVICES = (DeviceSpec("CPU", threads=1), DeviceSpec("CPU_FAST", plugin="CPU", threads=1))
Edges = Sequence[tuple[int, int]]
GraphOf = Callable[[str, str], OpGraph]
"""The fixture ``graph_of``: the graph of a built-in model in a view."""


def op_graph(
    n: int,
    edges: Edges,
    inputs: Sequence[Sequence[int]] = (),
    types: Sequence[str] = (),
    **size_bytes: int,
) -> OpGraph:
    """A graph of ``n`` operators, each with one output tensor."""
    readers: dict[int, set[int]] = {}
    for source, reader in sorted(edges):
        readers.setdefault(source, set()).add(reader)
    made = [(source, sorted(mine)) for source, mine in readers.items()]
    return made_graph(n, made, types, inputs, **size_bytes)


@st.composite
def op_graphs(draw: st.DrawFn, max_size: int = 12) -> OpGraph:
    """Random acyclic graphs whose sources read one of up to two model inputs."""
    n = draw(st.integers(1, max_size))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=2 * n)) if pairs else []
    readers = st.lists(st.integers(0, n - 1), unique=True, max_size=4).map(sorted)
    return op_graph(n, edges, draw(st.lists(readers, max_size=2)))


def is_topological(edges: IntArray) -> bool:
    """Whether every edge of a (2, n_edges) array leads to a higher number."""
    return bool((edges[0] < edges[1]).all())


def problem_on(
    graph: OpGraph, devices: tuple[DeviceSpec, ...] = TWO_DEVICES, granularity: str = "op"
) -> Problem:
    """A problem whose devices support every unit."""
    units: Units = group(graph, granularity)
    return Problem(units, devices, np.ones((len(units), len(devices)), dtype=np.bool_))


def simulate(
    model: str,
    granularity: str = "colocated",
    devices: Any = None,
    semantics: Semantics | None = None,
    costs: str | None = None,
) -> SimulatedBackend:
    """A model by its name, simulated on devices, by default serially on a CPU and a GPU."""
    made = build_simulated_problem(ModelSpec(model, granularity), devices, costs)
    return SimulatedBackend(made.problem, made.costs, semantics or Semantics())


def alternating(problem: Problem) -> IntArray:
    """(n_units,) the first two devices in turn."""
    return np.arange(problem.n_units) % 2
