"""What makes the outputs of two devices differ: operators that draw, and integers.

Integers may overflow: an x86 processor without VNNI adds two products in 16 bits, and cuts the sum
off. ``without_integer_kernels`` gives a model in which nothing can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from placement_gym.graph.extraction import list_bodies
from placement_gym.graph.operators import QUANTIZE
from placement_gym.graph.rounding import MAX_BITS, readers

if TYPE_CHECKING:
    import openvino as ov

RANDOM = ("RandomUniform", "Multinomial")
"""Types that draw; readers of other formats make normal, Bernoulli and Poisson draws, and dropout,
of these."""


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


def is_quantized(model: ov.Model) -> bool:
    """Return whether a model rounds activations or stores weights in eight bits or fewer."""
    return any(
        node.get_type_name() == QUANTIZE or is_compressed_weight(node)
        for node in list_all_nodes(model)
    )


def is_compressed_weight(node: ov.Node) -> bool:
    """Return whether a node is a constant in few bits that is read as real numbers."""
    if node.get_type_name() != "Constant" or node.get_element_type().bitwidth > MAX_BITS:
        return False
    return any(
        reader.get_type_name() == "Convert" and reader.get_element_type().is_real()
        for reader in readers(node)
    )


def without_integer_kernels(model: ov.Model) -> ov.Model:
    """A clone that rounds the same values to the same levels, but computes in real numbers.

    Plain operators take the place of each ``FakeQuantize`` of an activation, and of a ``Convert``
    to integers and back behind it: no device finds what it makes integer kernels of.
    """
    clone = model.clone()
    for node in clone.get_ordered_ops():
        source = node.input_value(0).get_node() if node.get_type_name() == QUANTIZE else None
        if source is None or source.get_type_name() == "Constant":
            continue
        rounded = round_to_levels(node)
        for restored in (back for stored in conversions(node) for back in conversions(stored)):
            restored.input(0).replace_source_output(rounded)
        node.output(0).replace(rounded)
    clone.validate_nodes_and_infer_types()
    return clone


def conversions(node: ov.Node) -> list[ov.Node]:
    return [reader for reader in readers(node) if reader.get_type_name() == "Convert"]


def round_to_levels(node: ov.Node) -> ov.Output:
    """Output of a ``FakeQuantize``, by its definition in the operator set."""
    from openvino import opset13 as ops

    x, low, high, lowest, highest = node.input_values()
    steps = ops.constant(node.get_attributes()["levels"] - 1, x.get_element_type())
    share = ops.divide(ops.subtract(x, low), ops.subtract(high, low))
    level = ops.round(ops.multiply(share, steps), "half_to_even")
    span = ops.subtract(highest, lowest)
    inside = ops.add(ops.multiply(ops.divide(level, steps), span), lowest)
    above_low = ops.select(ops.greater(x, high), highest, inside)
    return ops.select(ops.less_equal(x, low), lowest, above_low).output(0)
