"""Submodels and stages: parts into which a placement cuts a graph."""

from __future__ import annotations

import numpy as np

from placement_gym.base import BoolArray, IntArray
from placement_gym.graph.operators import OpGraph, distinct_edges, list_targets
from placement_gym.graph.units import contract, join_states, label_components, sort_labels


def acyclic_submodels(graph: OpGraph, devices: IntArray) -> IntArray:
    """Assign operators on (n_operators,) devices to submodels, numbered with producers first.

    Submodels are connected, on one device, and without cycles between them: levels never fall along
    an edge and rise where the device changes, and submodels are the connected components of equal
    device and level. A Parameter belongs to its reader of the lowest level, and HETERO joins its
    other readers with that one. Constants and Results belong to the submodel of their neighbour.
    Operators that access a state stay together.
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
    return number_by_level(adopt(graph, component), level, follows)


def join_operators(graph: OpGraph) -> tuple[OpGraph, IntArray, IntArray]:
    """Merge the operators of each state into one.

    Return the graph, the (n_operators,) new operator of each old one, and the (n_joined,) first old
    operator of each new one.
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
    """(n_operators,) maximum number of device changes on a path to each operator."""
    level = [0] * len(devices)
    operator_devices = devices.tolist()
    for source, target in edges[:, np.argsort(edges[1], kind="stable")].T.tolist():
        levels = level[source] + (operator_devices[source] != operator_devices[target])
        level[target] = max(level[target], levels)
    return np.array(level, dtype=np.int64)


def find_components(edges: IntArray, devices: IntArray, level: IntArray) -> IntArray:
    """(n_operators,) connected components of equal device and level."""
    source, target = edges
    joined = (level[source] == level[target]) & (devices[source] == devices[target])
    return label_components(edges[:, joined], len(devices))


def sink(edges: IntArray, devices: IntArray, level: IntArray, component: IntArray) -> IntArray:
    """Raise components to the latest possible level if a consumer on the same device has it."""
    _, first = np.unique(component, return_index=True)
    heights, group_devices = level[first].tolist(), devices[first].tolist()
    consumers = list_targets(distinct_edges(component[edges]), len(first))
    for group in np.argsort(-level[first], kind="stable").tolist():
        own, readers = group_devices[group], consumers[group]
        latest = min((heights[c] - (group_devices[c] != own) for c in readers), default=-1)
        if any(group_devices[c] == own and heights[c] == latest for c in readers):
            heights[group] = latest
    return np.array(heights, dtype=np.int64)[component]


def input_owners(graph: OpGraph, rank: IntArray) -> IntArray:
    """(2, n) pairs of each Parameter's reader of lowest rank and its other readers."""
    pairs = [
        (owner, reader)
        for readers in graph.inputs
        if readers
        for owner in [min(readers, key=lambda reader: (rank[reader], reader))]
        for reader in readers
        if reader != owner
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def adopt(graph: OpGraph, component: IntArray) -> IntArray:
    """Assign constants and Parameters to readers, Results to producers."""
    component, follows = component.copy(), graph.follows
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
    """(n_submodels,) colours that differ between neighbouring submodels of a device.

    Submodels of a device are neighbours if an edge or a Parameter connects them. With states they
    all are: HETERO may cut submodels of one name further, and separate a state.
    """
    import networkx as nx  # slow to import

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
    """Assign operators on (n_operators,) devices to stages, numbered with producers first.

    A stage is on one device, and data moves to later stages only. A device is one stage if that
    makes no cycle; otherwise it has a stage for each number of device changes before its submodels.
    Models of a union have separate stages. Constants and Results belong to the stage of their
    neighbour.
    """
    submodels = acyclic_submodels(graph, devices)
    stage_devices = submodel_devices(graph, devices, submodels)
    source, target = graph.edge_index
    flow = graph.edge_index[:, ~(graph.follows[source] | graph.follows[target])]
    edges = distinct_edges(submodels[flow])
    model = submodel_devices(graph, graph.model_of, submodels)
    label = number_columns(model, stage_devices)
    # Data that moves back and forth between devices makes a cycle.
    loop = label_components(distinct_edges(label[edges]), int(label.max()) + 1, strong=True)
    cyclic = np.unique(model[np.bincount(loop)[loop[label]] > 1])
    if len(cyclic):
        level = earliest_levels(edges, np.arange(len(stage_devices)))
        label = number_columns(model, np.where(np.isin(model, cyclic), level, 0), stage_devices)
    return number_topologically(distinct_edges(label[edges]), label)[submodels]


def number_columns(*rows: IntArray) -> IntArray:
    """(n,) rank of each column among the distinct ones, sorted by the rows in turn."""
    _, number = np.unique(np.stack(rows), axis=1, return_inverse=True)
    return number.astype(np.int64).ravel()


def number_topologically(edges: IntArray, label: IntArray) -> IntArray:
    """(n,) labels, renumbered so that (2, n_edges) acyclic edges between labels ascend."""
    import networkx as nx  # slow to import

    graph = nx.empty_graph(int(label.max()) + 1, nx.DiGraph)
    graph.add_edges_from(edges.T.tolist())
    rank = np.empty(len(graph), dtype=np.int64)
    for number, labels in enumerate(nx.topological_generations(graph)):
        rank[labels] = number
    return np.argsort(np.argsort(rank, kind="stable"))[label]
