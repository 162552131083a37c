"""Fast counts of submodels, equal to those of ``graph.submodels.acyclic_submodels``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from placement_gym.base.arrays import IntArray, UInt8, UInt32
from placement_gym.base.kernels import lazy, part, signed
from placement_gym.graph.operators import OpGraph
from placement_gym.schedules.program import offsets, uint32

NO_OWNER = -1


class Flow(NamedTuple):
    """The edges that determine submodels: those between operators that do not follow.

    Attributes:
        leaders: (n_leaders,) uint32 operators other than Constants, Parameters and Results; if
            there are none, the first operator of each connected part.
        first: (n_operators + 1,) uint32, where each operator's producers begin.
        producers: (n_edges,) uint32.
        first_input: (n_parameters + 1,) uint32, where each Parameter's readers begin.
        input_readers: (n_inputs,) uint32.
    """

    leaders: UInt32
    first: UInt32
    producers: UInt32
    first_input: UInt32
    input_readers: UInt32

    @classmethod
    def of(cls, graph: OpGraph) -> Flow:
        follows = graph.follows
        source, target = graph.edge_index
        kept = ~(follows[source] | follows[target])
        source, target = source[kept], target[kept]
        order = np.argsort(target, kind="stable")
        leaders = np.flatnonzero(~follows) if not follows.all() else first_operators(graph)
        readers = [reader for parameter in graph.inputs for reader in parameter]
        return cls(
            leaders=uint32(leaders),
            first=offsets(np.bincount(target, minlength=len(graph))),
            producers=uint32(source[order]),
            first_input=offsets(np.array([len(p) for p in graph.inputs], dtype=np.int64)),
            input_readers=uint32(np.array(readers, dtype=np.int64)),
        )


def first_operators(graph: OpGraph) -> IntArray:
    """The first operator of every connected part of the graph."""
    n, (source, target) = len(graph), graph.edge_index
    matrix = coo_array((np.ones(len(source), dtype=np.uint8), (source, target)), (n, n))
    part = connected_components(matrix, directed=False)[1]
    return np.unique(part, return_index=True)[1].astype(np.int64)


@lazy
@njit(cache=True, nogil=True)
def count_submodels(flow: Flow, unit: UInt32, placement: UInt8, n_devices: int) -> IntArray:
    """(n_devices,) submodels on each device.

    Components are disjoint-set trees over ``root``. From the highest level down, each is moved to
    its latest possible level if it then joins a consumer; consumers have moved before.

    Args:
        flow: Edges of the operator graph.
        unit: (n_operators,) uint32, the unit of each operator.
        placement: (n_units,) uint8.
        n_devices: Number of devices.
    """
    first, producers, leaders = flow.first, flow.producers, flow.leaders
    first_input, input_readers = flow.first_input, flow.input_readers
    n = len(unit)
    place, root = np.empty(n, np.uint8), np.empty(n, np.uint32)
    level, n_levels = np.empty(n, np.int32), 1

    # Levels count the changes of devices on a path: operators of a level and device that are
    # connected can run as one submodel without a cycle. `find` halves paths, which keeps trees
    # flat.
    for i in range(n):
        place[i], root[i], level[i] = placement[unit[i]], i, 0
        for e in range(first[i], first[i + 1]):
            producer = producers[e]
            level[i] = max(level[i], level[producer] + (place[producer] != place[i]))
        n_levels = max(n_levels, level[i] + 1)
        for e in range(first[i], first[i + 1]):
            producer = producers[e]
            if place[producer] == place[i] and level[producer] == level[i]:
                root[find(root, signed(i))] = find(root, signed(producer))

    # Operators sorted by level, by counting: the next loop visits levels from the top.
    begin = np.empty(n_levels + 1, np.uint32)
    for lowest in range(n_levels + 1):
        begin[lowest] = 0
    for i in range(n):
        root[i] = find(root, signed(i))
        begin[level[i] + 1] += 1
    for lowest in range(n_levels):
        begin[lowest + 1] += begin[lowest]
    position, order = np.empty(n_levels, np.uint32), np.empty(n, np.uint32)
    for lowest in range(n_levels):
        position[lowest] = begin[lowest]
    for i in range(n):
        order[position[level[i]]] = i
        position[level[i]] += 1

    # A component need not run as early as it can. At its latest level it may meet a consumer on its
    # device, which saves a submodel; consumers move first, so that theirs is final.
    height, latest, meets = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    for i in range(n):
        height[i], latest[i], meets[i] = level[i], n, n
    for lowest in range(n_levels - 1, -1, -1):
        for at in range(begin[lowest], begin[lowest + 1]):
            i = order[at]
            if root[i] == i and meets[i] < n and meets[i] == latest[i]:
                height[i] = latest[i]
        for at in range(begin[lowest], begin[lowest + 1]):
            i = order[at]
            high = height[root[i]]
            for e in range(first[i], first[i + 1]):
                there = root[producers[e]]
                apart = place[there] != place[i]
                # Selects, not branches: because no processor predicts where devices change.
                limit = high - apart if there != root[i] else n
                latest[there] = min(latest[there], limit)
                meets[there] = min(meets[there], n if apart else limit)

    # A component moved as a whole, so that those of the final levels are unions of the old ones.
    for i in range(n):
        level[i] = height[root[i]]
    for i in range(n):
        for e in range(first[i], first[i + 1]):
            producer = producers[e]
            joins = (place[producer] == place[i]) & (level[producer] == level[i])
            if joins & (root[producer] != root[i]):
                root[find(root, signed(i))] = find(root, signed(producer))
    # Readers of one Parameter are connected by it, if they have the device and level of the first.
    for p in range(len(first_input) - 1):
        owner = NO_OWNER
        for at in range(first_input[p], first_input[p + 1]):
            reader = input_readers[at]
            if owner == NO_OWNER or (level[reader], reader) < (level[owner], owner):
                owner = reader
        for at in range(first_input[p], first_input[p + 1]):
            reader = input_readers[at]
            if place[reader] == place[owner] and level[reader] == level[owner]:
                root[find(root, signed(reader))] = find(root, signed(owner))

    # What follows (Constants, Parameters and Results) makes no submodel of its own.
    counts, seen = np.empty(n_devices, np.int64), np.empty(n, np.uint8)
    for device in range(n_devices):
        counts[device] = 0
    for i in range(n):
        seen[i] = False
    for i in leaders:
        top = find(root, signed(i))
        if not seen[top]:
            seen[top] = True
            counts[place[i]] += 1
    return counts


@part
def find(root: UInt32, operator: int) -> int:
    """Find the root of an operator's tree, and halve the path to it."""
    while root[operator] != operator:
        root[operator] = root[root[operator]]
        operator = signed(root[operator])
    return operator
