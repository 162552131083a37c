"""Bodies of control flow, the models inside ``If`` and loops, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

BRANCHES = "If"
LOOPS = ("Loop", "TensorIterator")
RANDOM = ("RandomUniform", "Multinomial")
"""Types that draw; readers of other formats make normal, Bernoulli and Poisson draws, and dropout,
of these."""


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


def find_random(model: ov.Model) -> dict[str, str]:
    """Names of operators that draw, or hold one that does, and the type that draws."""
    found = {}
    for node in model.get_ordered_ops():
        kinds = (one.get_type_name() for one in (node, *list_inside(node)))
        if kind := next((kind for kind in kinds if kind in RANDOM), None):
            found[node.get_friendly_name()] = kind
    return found
