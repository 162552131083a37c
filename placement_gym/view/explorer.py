"""Files for Google's Model Explorer: a graph, and the time and device of each of its nodes."""

from __future__ import annotations

import re
from typing import Any

from placement_gym.base.texts import make_printable
from placement_gym.graph.operators import OpGraph
from placement_gym.view.data import Values
from placement_gym.view.scene import Scene


def make_node_data(scene: Scene, data: Values) -> Values:
    """Each node's time, and its device as a colour, to be added to the model or its graph.

    The placement is the first one. A unit's time stands at the node that names it; other nodes of
    the unit have none, so that sums over layers are right.

    Args:
        scene: What is shown.
        data: What ``make_view_data`` returns of it.
    """
    units = scene.backend.problem.units
    devices, placement = data["devices"], data["placements"][0]
    results: dict[str, Values] = {}
    for operator, members in enumerate(units.graph.members):
        colour = devices[placement["device"][units.of_operator[operator]]]["colour"]
        results |= {node: {"value": 0.0, "bgColor": colour} for node in members}
    for unit, name in enumerate(units.quotient.names):
        device = placement["device"][unit]
        ms = data["units"]["ms"][device][unit]
        results[name] = {"value": ms, "bgColor": devices[device]["colour"]}
    return {"results": results}


def make_graph(scene: Scene, data: Values) -> Values:
    """The operators of a model in Model Explorer's own form, as it opens no file of OpenVINO.

    Layers, which open and close, are the parts of a name; the placement is the first one.

    Args:
        scene: What is shown.
        data: What ``make_view_data`` returns of it.

    Returns:
        A collection of one graph.
    """
    units = scene.backend.problem.units
    graph = units.graph
    devices, placement = data["devices"], data["placements"][0]
    sources = list_sources(graph)
    nodes = []
    for operator, name in enumerate(graph.names):
        unit = int(units.of_operator[operator])
        device = devices[placement["device"][unit]]
        # Times are those of the whole unit, because only units are placed.
        about = {
            "name": make_printable(name),
            "unit": data["units"]["name"][unit],
            "device": device["name"],
            **{
                f"ms of the unit on {other['name']}": f"{data['units']['ms'][number][unit]:g}"
                for number, other in enumerate(devices)
            },
        }
        output = describe_output(graph, operator)
        nodes.append(
            {
                "id": name,
                "label": make_printable(graph.types[operator]),
                "namespace": find_layer(name),
                "attrs": list_pairs(about),
                "incomingEdges": [{"sourceNodeId": source} for source in sources[operator]],
                "outputsMetadata": [{"id": "0", "attrs": list_pairs(output)}],
                "style": {"backgroundColor": device["colour"]},
            }
        )
    model = make_printable(graph.model)
    return {"label": model, "graphs": [{"id": model, "nodes": nodes}]}


def find_layer(name: str) -> str:
    """``encoder/layer/0`` of ``__module.encoder.layer.0/aten::linear/MatMul``."""
    parts = [part for part in re.split(r"[./]", make_printable(name)) if part]
    return "/".join(part for part in parts[:-1] if part != "__module" and "::" not in part)


def list_sources(graph: OpGraph) -> list[list[str]]:
    """Names of the operators that each operator reads."""
    sources: list[list[str]] = [[] for _ in graph.names]
    for source, target in graph.edge_index.T.tolist():
        sources[target].append(graph.names[source])
    return sources


def describe_output(graph: OpGraph, operator: int) -> dict[str, str]:
    """Type and shape of an operator's first output."""
    shape = ", ".join(map(str, graph.shapes[operator]))
    return {"tensor_shape": f"{graph.element_types[operator]} [{shape}]"}


def list_pairs(values: dict[str, Any]) -> list[dict[str, str]]:
    """Values by key, as Model Explorer lists them."""
    return [{"key": key, "value": str(value)} for key, value in values.items()]
