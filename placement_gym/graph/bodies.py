"""Bodies of control flow: the models inside ``If``, ``Loop`` and ``TensorIterator``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

BRANCHES = "If"
LOOPS = ("Loop", "TensorIterator")


def list_bodies(node: ov.Node) -> list[ov.Model]:
    """The bodies of a node: of an ``If`` two, of a loop one, of any other none."""
    kind = node.get_type_name()
    if kind == BRANCHES:
        return [node.get_then_body(), node.get_else_body()]
    return [node.get_function()] if kind in LOOPS else []


def count_iterations(node: ov.Node) -> int | None:
    """Number of runs of a node's body; None where it depends on the data."""
    if node.get_type_name() == BRANCHES:
        return 1
    count: int = node.get_num_iterations()
    return count if count >= 0 else None


def list_all_nodes(model: ov.Model) -> Iterator[ov.Node]:
    """Every node of a model and of the bodies in it."""
    for node in model.get_ordered_ops():
        yield node
        yield from list_inside(node)


def list_inside(node: ov.Node) -> Iterator[ov.Node]:
    """Every node in the bodies of a node."""
    for body in list_bodies(node):
        yield from list_all_nodes(body)


def is_static(node: ov.Node) -> bool:
    """Return whether the shapes of all that a node reads and writes are known."""
    ports = [*node.inputs(), *node.outputs()]
    return all(port.get_partial_shape().is_static for port in ports)


def smallest_shape(port: ov.Output) -> tuple[int, ...]:
    """The shape of an output; a dynamic dimension, which only bodies have, as one of size 1."""
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return ()
    return tuple(size.get_length() if size.is_static else 1 for size in shape)
