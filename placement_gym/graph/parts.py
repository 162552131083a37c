"""The parts of a model that are compiled on their own: submodels and stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.base.arrays import IntArray
from placement_gym.base.errors import CompileError
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.static_values import separate_static_values

if TYPE_CHECKING:
    import openvino as ov


def separate_parts(model: ov.Model, graph: OpGraph, parts: IntArray) -> dict[str, int]:
    """Give each part of a model copies of its own of what is known without data, in place.

    Args:
        model: The model of ``graph``.
        graph: Its operators.
        parts: (n_operators,) part of each operator, a submodel or a stage.

    Returns:
        Node name -> part. A Parameter belongs to the first part that reads it.

    Raises:
        CompileError: A node belongs to no part.
    """
    owner = {
        name: part
        for names, part in zip(graph.members, parts.tolist(), strict=True)
        for name in names
    }
    for parameter, readers in zip(model.get_parameters(), graph.inputs, strict=True):
        if readers:
            owner[parameter.get_friendly_name()] = int(parts[list(readers)].min())
    unplaced = sorted({node.get_friendly_name() for node in model.get_ops()} - set(owner))
    if unplaced:
        raise CompileError(f"the placement has no device for {unplaced}")
    separate_static_values(model, frozenset(graph.names), owner)
    return owner
