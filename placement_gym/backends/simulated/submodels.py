"""Counting submodels fast: the same numbers as ``graph.submodels.acyclic_submodels``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placement_gym.backends.simulated.program import Int8, Int32, int32, offsets
from placement_gym.graph.operators import IntArray, OpGraph
from placement_gym.graph.submodels import followers


class Flow(NamedTuple):
    """The edges that decide about submodels: none of constants, Parameters and Results.

    Attributes:
        leaders: (n_leaders,) int32 operators that are none of those; all if there are no others.
        first: (n_operators + 1,) int32, where each operator's producers begin.
        producers: (n_edges,) int32.
        first_input: (n_parameters + 1,) int32, where each Parameter's readers begin.
        input_readers: (n_inputs,) int32.
    """

    leaders: Int32
    first: Int32
    producers: Int32
    first_input: Int32
    input_readers: Int32

    @classmethod
    def of(cls, graph: OpGraph) -> Flow:
        follows = followers(graph)
        source, target = graph.edge_index
        kept = ~(follows[source] | follows[target])
        source, target = source[kept], target[kept]
        order = np.argsort(target, kind="stable")
        leaders = np.flatnonzero(~follows) if not follows.all() else np.arange(len(graph))
        readers = [reader for parameter in graph.inputs for reader in parameter]
        return cls(
            leaders=int32(leaders),
            first=offsets(np.bincount(target, minlength=len(graph))),
            producers=int32(source[order]),
            first_input=offsets(np.array([len(p) for p in graph.inputs], dtype=np.int64)),
            input_readers=int32(np.array(readers, dtype=np.int64)),
        )


@njit(cache=True, nogil=True)
def count_submodels(flow: Flow, unit: Int32, placement: Int8, n_devices: int) -> IntArray:
    """(n_devices,) submodels on each device.

    Args:
        flow: Edges of the operator graph.
        unit: (n_operators,) int32, the unit of each operator.
        placement: (n_units,) int8.
        n_devices: Number of devices.
    """
    n_operators = len(unit)
    place = np.empty(n_operators, np.int8)
    level = np.zeros(n_operators, np.int32)
    for i in range(n_operators):
        place[i] = placement[unit[i]]
        for e in range(flow.first[i], flow.first[i + 1]):
            producer = flow.producers[e]
            level[i] = max(level[i], level[producer] + (place[producer] != place[i]))
    root = joined(flow, place, level)
    sunk = sink(flow, place, level, root)
    root = joined(flow, place, sunk)
    join_inputs(flow, place, sunk, root)
    counts = np.zeros(n_devices, np.int64)
    seen = np.zeros(n_operators, np.bool_)
    for i in flow.leaders:
        here = find(root, i)
        if not seen[here]:
            seen[here] = True
            counts[place[i]] += 1
    return counts


@njit(cache=True, nogil=True)
def find(root: Int32, i: int) -> int:
    """The representative of an operator's set; halves the path to it."""
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


@njit(cache=True, nogil=True)
def joined(flow: Flow, place: Int8, level: Int32) -> Int32:
    """(n_operators,) sets of connected operators of equal device and level."""
    root = np.arange(len(place)).astype(np.int32)
    for i in range(len(place)):
        for e in range(flow.first[i], flow.first[i + 1]):
            producer = flow.producers[e]
            if place[producer] == place[i] and level[producer] == level[i]:
                root[find(root, producer)] = find(root, i)
    return root


@njit(cache=True, nogil=True)
def sink(flow: Flow, place: Int8, level: Int32, root: Int32) -> Int32:
    """(n_operators,) levels, each set as late as may be if it then meets a consumer.

    Sets are visited from the highest level down, so that consumers have moved before.
    """
    n_operators = len(place)
    first = np.zeros(level.max() + 2, np.int32)
    for i in range(n_operators):
        first[level[i] + 1] += 1
    first = np.cumsum(first)
    position = first.copy()
    order = np.empty(n_operators, np.int32)
    for i in range(n_operators):
        order[position[level[i]]] = i
        position[level[i]] += 1
    height = level.copy()
    latest = np.full(n_operators, n_operators, np.int32)
    meets = np.full(n_operators, n_operators, np.int32)
    for lowest in range(level.max(), -1, -1):
        members = order[first[lowest] : first[lowest + 1]]
        for i in members:
            here = find(root, i)
            if i == here and meets[here] < n_operators and meets[here] == latest[here]:
                height[here] = latest[here]
        for i in members:
            here = find(root, i)
            for e in range(flow.first[i], flow.first[i + 1]):
                producer = flow.producers[e]
                there = find(root, producer)
                if there != here:
                    apart = place[producer] != place[i]
                    latest[there] = min(latest[there], height[here] - apart)
                    if not apart:
                        meets[there] = min(meets[there], height[here])
    for i in range(n_operators):
        level[i] = height[find(root, i)]
    return level


@njit(cache=True, nogil=True)
def join_inputs(flow: Flow, place: Int8, level: Int32, root: Int32) -> None:
    """Join each Parameter's readers with the one of lowest level, where they may be joined."""
    for p in range(len(flow.first_input) - 1):
        readers = flow.input_readers[flow.first_input[p] : flow.first_input[p + 1]]
        if len(readers) == 0:
            continue
        owner = readers[0]
        for reader in readers:
            if level[reader] < level[owner] or (level[reader] == level[owner] and reader < owner):
                owner = reader
        for reader in readers:
            if place[reader] == place[owner] and level[reader] == level[owner]:
                root[find(root, reader)] = find(root, owner)
