"""The states of a model: which operators access each one, and what each holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.base import IntArray
from placement_gym.graph.bodies import smallest_shape
from placement_gym.graph.flops import MOVING

if TYPE_CHECKING:
    import openvino as ov

WRITER, READER = "Assign", "ReadValue"


def find_states(nodes: Sequence[ov.Node]) -> tuple[tuple[int, ...], ...]:
    """(n_states,) the positions of the operators that access each state of a model.

    They are its ``ReadValue`` and ``Assign``, which OpenVINO cannot separate, and what reads it:
    operators that only move it, up to and with the first that compute with it, as attention does.
    The shape of a state may be read elsewhere.
    """
    index = {node.get_friendly_name(): position for position, node in enumerate(nodes)}
    states: dict[str, set[int]] = {}
    for node in nodes:
        if node.get_type_name() in (READER, WRITER):
            states.setdefault(node.get_attributes()["variable_id"], set()).update(
                index[name] for name in list_accessing(node)
            )
    return tuple(tuple(sorted(states[name])) for name in sorted(states))


def list_accessing(node: ov.Node) -> set[str]:
    """Names of an operator and of those that read its output, through others that only move it."""
    names, waiting = {node.get_friendly_name()}, [node]
    while waiting:
        here = waiting.pop()
        if here.get_type_name() == WRITER:
            continue
        for output in here.outputs():
            for port in output.get_target_inputs():
                reader = port.get_node()
                name, kind = reader.get_friendly_name(), reader.get_type_name()
                if name in names or kind in ("Result", "ShapeOf"):
                    continue
                names.add(name)
                if kind in MOVING:
                    waiting.append(reader)
    return names


def held_bytes(nodes: Sequence[ov.Node], shaped: Sequence[ov.Node]) -> IntArray:
    """(n,) bytes that each ``ReadValue`` holds once its ``Assign`` has written.

    A dimension of the state that has an upper bound counts as that bound.
    """
    written = {
        node.get_attributes()["variable_id"]: static.input(0)
        for node, static in zip(nodes, shaped, strict=True)
        if node.get_type_name() == WRITER
    }
    size_bytes = np.zeros(len(nodes), dtype=np.int64)
    for position, node in enumerate(nodes):
        if node.get_type_name() == READER:
            port = written[node.get_attributes()["variable_id"]]
            sizes = bound(node.output(0).get_partial_shape(), smallest_shape(port))
            size_bytes[position] = int(np.prod(sizes)) * port.get_element_type().size
    return size_bytes


def bound(declared: ov.PartialShape, actual: Sequence[int]) -> list[int]:
    """The sizes of a shape, the upper bound of a dimension where it has one."""
    if declared.rank.is_dynamic:
        return list(actual)
    limits = [size.get_max_length() if size.is_dynamic else -1 for size in declared]
    return [max(size, limit) for size, limit in zip(actual, limits, strict=True)]
