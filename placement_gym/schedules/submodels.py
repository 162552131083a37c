"""Fast counts of submodels and stages, equal to those of ``graph.submodels``."""

from __future__ import annotations

import numpy as np

from placement_gym.base import IntArray, UInt8, UInt32, inlined_part, kernel, part, signed
from placement_gym.schedules.program import Flow

PLACE, ROOT, LEVEL, ORDER, BEGIN, HEIGHT, LATEST, MEETS = range(8)
"""Rows of the array that ``find_submodels`` fills."""


def count_submodels(flow: Flow, unit: UInt32, placement: UInt8, n_devices: int) -> IntArray:
    """(n_devices,) submodels on each device.

    ``unit``, (n_operators,) uint32, is the unit of each operator; ``placement`` is (n_units,)
    uint8.
    """
    counts = np.zeros(n_devices, np.int64)
    find_submodels(flow, unit, placement, make_rows(len(unit)), counts)
    return counts


def count_stages(
    flow: Flow, unit: UInt32, model: IntArray, rates: IntArray, placement: UInt8, n_devices: int
) -> IntArray:
    """(n_devices,) stage inferences on each device per request, or per round of a union.

    Stages are those of ``graph.submodels.pipeline_stages``. ``model`` is (n_operators,), each
    operator's model of a union; ``rates`` is (n_models,), inferences of each model per round; other
    arguments as for ``count_submodels``.
    """
    counts, rows = np.zeros(n_devices, np.int64), make_rows(len(unit))
    find_submodels(flow, unit, placement, rows, counts)
    join_stages(flow, rows, model, rates, counts)
    return counts


def make_rows(n: int) -> UInt32:
    """An empty array for ``find_submodels``."""
    return np.empty((8, n + 2), np.uint32)


@kernel
def join_stages(
    flow: Flow, rows: UInt32, model: IntArray, rates: IntArray, counts: IntArray
) -> None:
    """Count stages, which join submodels, from the ``rows`` of ``find_submodels``.

    Inferences are written to (n_devices,) ``counts``; other arguments as for ``count_stages``.
    """
    root, level, order, begin = rows[ROOT], rows[LEVEL], rows[ORDER], rows[BEGIN]
    place, n, n_models, n_devices = rows[PLACE], len(model), len(rates), len(counts)

    # Data that returns to a device makes a cycle, and several stages of that model. First which
    # devices are reached directly, then by way of others.
    reaches = np.zeros((n_models, n_devices, n_devices), np.bool_)
    for i in range(n):
        for e in range(flow.first[i], flow.first[i + 1]):
            here = place[flow.producers[e]]
            reaches[model[i], here, place[i]] |= here != place[i]
    cyclic = np.zeros(n_models, np.bool_)
    for m in range(n_models):
        for via in range(n_devices):
            for here in range(n_devices):
                if reaches[m, here, via]:
                    for there in range(n_devices):
                        reaches[m, here, there] |= reaches[m, via, there]
        for here in range(n_devices):
            cyclic[m] |= reaches[m, here, here]

    # Submodels of a device are one stage for each number of device changes before them. Levels
    # increase along edges between submodels, so producers are final in this order.
    changes = rows[HEIGHT]
    for i in range(n):
        changes[i] = 0
    n_levels = sort_by_level(level, n, begin, order)
    for k in range(n):
        i = order[k]
        if cyclic[model[i]]:
            for e in range(flow.first[i], flow.first[i + 1]):
                producer = flow.producers[e]
                before = changes[root[producer]] + (place[producer] != place[i])
                if root[producer] != root[i]:
                    changes[root[i]] = max(signed(changes[root[i]]), before)

    for d in range(n_devices):
        counts[d] = 0
    seen = np.zeros((n_models, n_levels, n_devices), np.bool_)
    for i in flow.leaders:
        if not seen[model[i], changes[root[i]], place[i]]:
            seen[model[i], changes[root[i]], place[i]] = True
            counts[place[i]] += rates[model[i]]


@kernel
def find_submodels(
    flow: Flow, unit: UInt32, placement: UInt8, rows: UInt32, counts: IntArray
) -> None:
    """Find the submodel of each operator that does not follow.

    Components are disjoint-set trees over ``root``. From the highest level down, each moves to its
    latest possible level if it then joins a consumer; consumers have moved before.

    Of (8, n_operators + 2) uint32 ``rows``, ``PLACE`` gets the device of each operator, ``ROOT``
    the operator that stands for its submodel, and ``LEVEL`` a number that increases along every
    edge between submodels. (n_devices,) ``counts`` gets the number of submodels on each device.
    Other arguments as for ``count_submodels``.
    """
    first, producers = flow.first, flow.producers
    first_input, input_readers = flow.first_input, flow.input_readers
    root, level, order, begin = rows[ROOT], rows[LEVEL], rows[ORDER], rows[BEGIN]
    height, latest, meets, place = rows[HEIGHT], rows[LATEST], rows[MEETS], rows[PLACE]
    n = len(unit)

    # Levels count device changes on a path: connected operators of one level and device can be one
    # submodel without a cycle.
    for i in range(n):
        place[i], root[i], highest = placement[unit[i]], i, 0
        for e in range(first[i], first[i + 1]):
            producer = producers[e]
            highest = max(highest, signed(level[producer]) + (place[producer] != place[i]))
        level[i] = highest
        join_producers(first, producers, place, root, level, i)

    # The next loop visits levels from the top.
    for i in range(n):
        root[i] = find(root, i)
    n_levels = sort_by_level(level, n, begin, order)

    # At its latest level a component may meet a consumer on its device, which saves a submodel.
    for i in range(n):
        height[i], latest[i], meets[i] = level[i], n, n
    for lowest in range(n_levels - 1, -1, -1):
        for at in range(begin[lowest], begin[lowest + 1]):
            i = order[at]
            if root[i] == i and meets[i] < n and meets[i] == latest[i]:
                height[i] = latest[i]
        for at in range(begin[lowest], begin[lowest + 1]):
            i = order[at]
            high = signed(height[root[i]])
            for e in range(first[i], first[i + 1]):
                there = root[producers[e]]
                apart = place[there] != place[i]
                # Selects instead of branches: no processor predicts where devices change.
                limit = high - apart if there != root[i] else n
                latest[there] = min(signed(latest[there]), limit)
                meets[there] = min(signed(meets[there]), n if apart else limit)

    # Components move as a whole: those of the final levels are unions of the old ones.
    for i in range(n):
        level[i] = height[root[i]]
    for i in range(n):
        join_producers(first, producers, place, root, level, i)
    # A Parameter connects those of its readers that have the device and level of the first.
    for p in range(len(first_input) - 1):
        owner = signed(n)
        for at in range(first_input[p], first_input[p + 1]):
            reader = signed(input_readers[at])
            if owner == n or (level[reader], reader) < (level[owner], owner):
                owner = reader
        for at in range(first_input[p], first_input[p + 1]):
            reader = signed(input_readers[at])
            if place[reader] == place[owner] and level[reader] == level[owner]:
                root[find(root, reader)] = find(root, owner)

    # A submodel is counted at its first operator that does not follow.
    seen = meets
    for i in range(n):
        root[i], seen[i] = find(root, i), 0
    for i in flow.leaders:
        counts[place[i]] += 1 - seen[root[i]]
        seen[root[i]] = 1


@inlined_part
def join_producers(
    first: UInt32, producers: UInt32, place: UInt32, root: UInt32, level: UInt32, i: int
) -> None:
    """Join an operator's component with its producers' of the same device and level."""
    for e in range(first[i], first[i + 1]):
        producer = signed(producers[e])
        joins = (place[producer] == place[i]) & (level[producer] == level[i])
        if joins & (root[producer] != root[i]):
            root[find(root, i)] = find(root, producer)


@part
def sort_by_level(level: UInt32, n: int, begin: UInt32, order: UInt32) -> int:
    """Sort operators by level, by counting, and return the number of levels.

    ``level`` is (n_operators + 2,) uint32, the last two unused. ``begin``, of the same shape, gets
    where each level begins and the last one ends; ``order`` gets the operators.
    """
    # Counts are stored two places later, so that after summation `begin[level + 1]` is where the
    # level begins; filling the level moves it to the end, where the next one begins.
    n_levels = 1
    for at in range(n + 2):
        begin[at] = 0
    for i in range(n):
        n_levels = max(n_levels, signed(level[i]) + 1)
        begin[level[i] + 2] += 1
    for at in range(1, n_levels + 2):
        begin[at] += begin[at - 1]
    for i in range(n):
        order[begin[level[i] + 1]] = i
        begin[level[i] + 1] += 1
    return n_levels


@inlined_part
def find(root: UInt32, operator: int) -> int:
    """Find the root of an operator's tree; halving the path to it keeps trees flat."""
    while root[operator] != operator:
        root[operator] = root[root[operator]]
        operator = signed(root[operator])
    return operator
