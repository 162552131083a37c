"""Operators that draw random numbers, of which two runs of one model may differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.graph.bodies import list_inside

if TYPE_CHECKING:
    import openvino as ov

RANDOM = ("RandomUniform", "Multinomial")
"""Types that draw; readers of other formats make normal, Bernoulli and Poisson draws, and dropout,
of these."""


def find_random(model: ov.Model) -> dict[str, str]:
    """Names of operators that draw, or hold one that does, and the type that draws."""
    found = {}
    for node in model.get_ordered_ops():
        kinds = (one.get_type_name() for one in (node, *list_inside(node)))
        if kind := next((kind for kind in kinds if kind in RANDOM), None):
            found[node.get_friendly_name()] = kind
    return found
