"""Fast counts of submodels and stages, equal to those of ``graph.submodels``."""

from __future__ import annotations

import numpy as np

from placement_gym.base.arrays import Int32, IntArray, UInt8, UInt32
from placement_gym.base.kernels import kernel, part, signed
from placement_gym.schedules.program import Flow

NO_OWNER = -1


@kernel
def count_submodels(flow: Flow, unit: UInt32, placement: UInt8, n_devices: int) -> IntArray:
    """(n_devices,) submodels on each device.

    Args:
        flow: Edges of the operator graph.
        unit: (n_operators,) uint32, the unit of each operator.
        placement: (n_units,) uint8.
        n_devices: Number of devices.
    """
    root, place, _ = find_submodels(flow, unit, placement)
    counts, seen = np.zeros(n_devices, np.int64), np.zeros(len(unit), np.bool_)
    for i in flow.leaders:
        if not seen[root[i]]:
            seen[root[i]] = True
            counts[place[i]] += 1
    return counts


@kernel
def count_stages(
    flow: Flow, unit: UInt32, model: IntArray, rates: IntArray, placement: UInt8, n_devices: int
) -> IntArray:
    """(n_devices,) inferences of stages on each device in a request, or a round of a union.

    The stages are those of ``graph.submodels.pipeline_stages``.

    Args:
        flow: As for ``count_submodels``.
        unit: As for ``count_submodels``.
        model: (n_operators,) the model of a union that each operator belongs to.
        rates: (n_models,) inferences of each model in a round.
        placement: As for ``count_submodels``.
        n_devices: Number of devices.
    """
    root, place, level = find_submodels(flow, unit, placement)
    n, n_models = len(unit), len(rates)

    # Devices that data goes back and forth between make a cycle: several stages of that model then.
    # Each device's data reaches others at first directly, then by way of others.
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

    # Then the submodels of a device are one stage for each number of device changes before them.
    # Edges between submodels raise the level, so that producers are final in this order.
    changes = np.zeros(n, np.int32)
    begin, order = np.empty(level.max() + 3, np.uint32), np.empty(n, np.uint32)
    sort_by_level(level, begin, order)
    for k in range(n):
        i = order[k]
        if cyclic[model[i]]:
            for e in range(flow.first[i], flow.first[i + 1]):
                producer = flow.producers[e]
                before = changes[root[producer]] + (place[producer] != place[i])
                if root[producer] != root[i]:
                    changes[root[i]] = max(changes[root[i]], before)

    counts = np.zeros(n_devices, np.int64)
    seen = np.zeros((n_models, level.max() + 1, n_devices), np.bool_)
    for i in flow.leaders:
        if not seen[model[i], changes[root[i]], place[i]]:
            seen[model[i], changes[root[i]], place[i]] = True
            counts[place[i]] += rates[model[i]]
    return counts


@kernel
def find_submodels(flow: Flow, unit: UInt32, placement: UInt8) -> tuple[UInt32, UInt8, Int32]:
    """Find the submodel of each operator that does not follow.

    Components are disjoint-set trees over ``root``. From the highest level down, each is moved to
    its latest possible level if it then joins a consumer; consumers have moved before.

    Returns:
        (n_operators,) the operator that stands for each one's submodel; (n_operators,) devices;
        and (n_operators,) levels, which every edge between two submodels raises.
    """
    first, producers = flow.first, flow.producers
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

    # The next loop visits levels from the top.
    for i in range(n):
        root[i] = find(root, signed(i))
    begin, order = np.empty(n_levels + 2, np.uint32), np.empty(n, np.uint32)
    sort_by_level(level, begin, order)

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

    for i in range(n):
        root[i] = find(root, signed(i))
    return root, place, level


@part
def sort_by_level(level: Int32, begin: UInt32, order: UInt32) -> None:
    """Sort operators by level, by counting.

    Args:
        level: (n_operators,) int32.
        begin: (n_levels + 2,) gets where each level begins, and where the last one ends.
        order: (n_operators,) gets operators.
    """
    # Counts are two places on. Then each number but the first is where the level before begins, and
    # moves on to where it ends, which is where the next one begins.
    for at in range(len(begin)):
        begin[at] = 0
    for i in range(len(level)):
        begin[level[i] + 2] += 1
    for at in range(1, len(begin)):
        begin[at] += begin[at - 1]
    for i in range(len(level)):
        order[begin[level[i] + 1]] = i
        begin[level[i] + 1] += 1


@part
def find(root: UInt32, operator: int) -> int:
    """Find the root of an operator's tree, and halve the path to it."""
    while root[operator] != operator:
        root[operator] = root[root[operator]]
        operator = signed(root[operator])
    return operator
