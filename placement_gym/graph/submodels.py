"""Submodels and stages: the parts into which a placement cuts the operator graph."""

from __future__ import annotations

import numpy as np

from placement_gym.base import BoolArray, IntArray
from placement_gym.graph.operators import OpGraph, distinct_edges
from placement_gym.graph.units import contract, join_states, label_components, sort_labels


def acyclic_submodels(graph: OpGraph, devices: IntArray) -> IntArray:
    """Assign operators to submodels: connected, on one device, without cycles between them.

    Operators get levels that never fall along an edge and rise where the device changes.
    Submodels are the connected components of equal device and level, so every edge between two
    of them raises the level and there is no cycle. A Parameter belongs to its reader of the
    lowest level, and HETERO joins its other readers with that one. Constants and Results belong to
    the submodel of their neighbour. Operators that access a state stay together.

    Args:
        graph: Operators in topological order.
        devices: (n_operators,) device of each operator.

    Returns:
        (n_operators,) submodel of each operator, numbered such that producers come first.
    """
    if graph.states:
        joined, labels, first = join_operators(graph)
        return acyclic_submodels(joined, devices[first])[labels]
    source, target = graph.edge_index
    follows = graph.follows
    flow = graph.edge_index[:, ~(follows[source] | follows[target])]
    level = earliest_levels(flow, devices)
    level = sink(flow, devices, level, find_components(flow, devices, level))
    joins = np.concatenate([flow, input_owners(graph, level)], axis=1)
    component = find_components(joins, devices, level)
    return number_by_level(adopt(graph, component, follows), level, follows)


def join_operators(graph: OpGraph) -> tuple[OpGraph, IntArray, IntArray]:
    """Make the operators that access a state one.

    Returns:
        The graph; (n_operators,) its operator of each one before; and (n_joined,) the first one
        before of each of its operators.
    """
    labels = sort_labels(graph, join_states(graph, np.arange(len(graph))))
    _, first = np.unique(labels, return_index=True)
    return contract(graph, labels), labels, first.astype(np.int64)


def submodel_devices(graph: OpGraph, devices: IntArray, submodels: IntArray) -> IntArray:
    """(n_submodels,) device of each submodel; constants, Parameters and Results are ignored."""
    result = np.empty(int(submodels.max()) + 1, dtype=np.int64)
    order = np.argsort(~graph.follows, kind="stable")
    result[submodels[order]] = devices[order]
    return result


def earliest_levels(edges: IntArray, devices: IntArray) -> IntArray:
    """(n_operators,) maximum number of device changes on a path that ends at the operator."""
    level = [0] * len(devices)
    operator_devices = devices.tolist()
    for source, target in edges[:, np.argsort(edges[1], kind="stable")].T.tolist():
        levels = level[source] + (operator_devices[source] != operator_devices[target])
        level[target] = max(level[target], levels)
    return np.array(level, dtype=np.int64)


def find_components(edges: IntArray, devices: IntArray, level: IntArray) -> IntArray:
    """(n_operators,) connected component of equal device and level."""
    source, target = edges
    joined = (level[source] == level[target]) & (devices[source] == devices[target])
    return label_components(edges[:, joined], len(devices))


def sink(edges: IntArray, devices: IntArray, level: IntArray, component: IntArray) -> IntArray:
    """Raise a component to its latest possible level if that is a consumer's on the same device."""
    _, first = np.unique(component, return_index=True)
    heights, group_devices = level[first].tolist(), devices[first].tolist()
    consumers: list[list[int]] = [[] for _ in first]
    for source, target in distinct_edges(component[edges]).T.tolist():
        consumers[source].append(target)
    for group in np.argsort(-level[first], kind="stable").tolist():
        latest = min(
            (heights[c] - (group_devices[c] != group_devices[group]) for c in consumers[group]),
            default=-1,
        )
        if any(
            group_devices[c] == group_devices[group] and heights[c] == latest
            for c in consumers[group]
        ):
            heights[group] = latest
    return np.array(heights, dtype=np.int64)[component]


def input_owners(graph: OpGraph, rank: IntArray) -> IntArray:
    """(2, n) the reader of lowest rank of each Parameter, and each of its other readers."""
    pairs = [
        (owner, reader)
        for readers in graph.inputs
        if readers
        for owner in [min(readers, key=lambda reader: (rank[reader], reader))]
        for reader in readers
        if reader != owner
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def adopt(graph: OpGraph, component: IntArray, follows: BoolArray) -> IntArray:
    """Assign constants and Parameters to a reader, Results to their producer."""
    component = component.copy()
    for source, target in reversed(graph.edge_index.T.tolist()):
        if follows[source]:
            component[source] = component[target]
    for source, target in graph.edge_index.T.tolist():
        if follows[target]:
            component[target] = component[source]
    return component


def number_by_level(component: IntArray, level: IntArray, follows: BoolArray) -> IntArray:
    """Number components by level, then by their first operator."""
    leaders = np.flatnonzero(~follows) if not follows.all() else np.arange(len(follows))
    components, first = np.unique(component[leaders], return_index=True)
    rank = np.zeros(int(component.max()) + 1, dtype=np.int64)
    rank[components[np.lexsort((first, level[leaders[first]]))]] = np.arange(len(components))
    return rank[component]


def separating_colours(graph: OpGraph, devices: IntArray, submodels: IntArray) -> IntArray:
    """Assign colours that keep neighbouring submodels of one device apart.

    Returns:
        (n_submodels,) small integers; two submodels of one device differ if an edge or a
        Parameter connects them. With states all submodels of a device differ, because HETERO
        sometimes cuts submodels of one name once more, and may then part a state.
    """
    import networkx as nx  # an eighth of what a process that measures would import

    if graph.states:
        on_device = submodel_devices(graph, devices, submodels)
        same = on_device[:, None] == on_device[None, :]
        return np.tril(same, -1).sum(axis=1).astype(np.int64)
    source, target = np.concatenate([graph.edge_index, input_owners(graph, submodels)], axis=1)
    touching = (devices[source] == devices[target]) & (submodels[source] != submodels[target])
    neighbours = nx.Graph(submodels[np.stack([source[touching], target[touching]])].T.tolist())
    colours = np.zeros(int(submodels.max()) + 1, dtype=np.int64)
    for submodel, colour in nx.greedy_color(neighbours, lambda nodes, _: sorted(nodes)).items():
        colours[submodel] = colour
    return colours


def pipeline_stages(graph: OpGraph, devices: IntArray) -> IntArray:
    """Assign operators to stages, each on one device, such that data only moves to later ones.

    A device is one stage where that makes no cycle, whether its operators are connected or not.
    Otherwise the submodels of a device are one stage for each number of device changes before
    them. Constants and Results belong to the stage of their neighbour. No stage holds parts of two
    models of a union: these run independently.

    Args:
        graph: Operators in topological order.
        devices: (n_operators,) device of each operator.

    Returns:
        (n_operators,) stage of each operator, numbered such that producers come first.
    """
    submodels = acyclic_submodels(graph, devices)
    stage_devices = submodel_devices(graph, devices, submodels)
    source, target = graph.edge_index
    flow = graph.edge_index[:, ~(graph.follows[source] | graph.follows[target])]
    edges = distinct_edges(submodels[flow])
    model = submodel_devices(graph, graph.model_of, submodels)
    label = number_columns(model, stage_devices)
    # Devices that data goes back and forth between make a cycle: several stages of that model then.
    loop = label_components(distinct_edges(label[edges]), int(label.max()) + 1, strong=True)
    cyclic = np.unique(model[np.bincount(loop)[loop[label]] > 1])
    if len(cyclic):
        level = earliest_levels(edges, np.arange(len(stage_devices)))
        label = number_columns(model, np.where(np.isin(model, cyclic), level, 0), stage_devices)
    return number_topologically(distinct_edges(label[edges]), label)[submodels]


def number_columns(*rows: IntArray) -> IntArray:
    """(n,) the rank of each column among the distinct ones, by the first row, then the others."""
    _, number = np.unique(np.stack(rows), axis=1, return_inverse=True)
    return number.astype(np.int64).ravel()


def number_topologically(edges: IntArray, label: IntArray) -> IntArray:
    """(n,) labels renumbered from 0 such that no edge between labels descends.

    Args:
        edges: (2, n_edges) of an acyclic graph of labels.
        label: (n,) labels, numbered from 0 without gaps.
    """
    consumers: list[list[int]] = [[] for _ in range(int(label.max()) + 1)]
    waiting, rank = [0] * len(consumers), [0] * len(consumers)
    for source, target in edges.T.tolist():
        consumers[source].append(target)
        waiting[target] += 1
    ready = [group for group, producers in enumerate(waiting) if not producers]
    # the longest path to each; a label is added once all its producers are final
    for group in ready:
        for target in consumers[group]:
            rank[target] = max(rank[target], rank[group] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return np.argsort(np.argsort(rank, kind="stable"))[label]
