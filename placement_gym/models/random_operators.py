"""Operators that draw random numbers, of which two runs of one model may differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

RANDOM = ("RandomUniform", "Multinomial")
"""Types that draw; readers of other formats make normal, Bernoulli and Poisson draws, and dropout,
of these.
"""
BODIES = ("get_function", "get_then_body", "get_else_body")
"""Methods of control flow that return what is inside."""


def find_random(model: ov.Model) -> dict[str, str]:
    """Names of operators that draw, or hold one that does, and the type that draws."""
    type_of = {node.get_friendly_name(): next(drawn(node), "") for node in model.get_ordered_ops()}
    return {name: kind for name, kind in type_of.items() if kind}


def drawn(node: ov.Node) -> Iterator[str]:
    """The types of an operator and of those in its bodies that draw."""
    if node.get_type_name() in RANDOM:
        yield node.get_type_name()
    for inner in find_inside(node):
        yield from drawn(inner)


def find_inside(node: ov.Node) -> Iterator[ov.Node]:
    """The operators in the bodies of control flow."""
    for method in BODIES:
        if hasattr(node, method):
            yield from getattr(node, method)().get_ordered_ops()
