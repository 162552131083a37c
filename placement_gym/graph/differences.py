"""Causes of different outputs of devices: random operators, and integers.

Integers may overflow: x86 processors without VNNI saturate the sum of two products in 16 bits.
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
"""Random types, of which OpenVINO's converters also build other distributions and dropout."""


def list_all_nodes(model: ov.Model) -> Iterator[ov.Node]:
    for node in model.get_ordered_ops():
        yield node
        yield from list_inside(node)


def list_inside(node: ov.Node) -> Iterator[ov.Node]:
    """Yield the nodes in the bodies of a node."""
    for body in list_bodies(node):
        yield from list_all_nodes(body)


def find_random(model: ov.Model) -> dict[str, str]:
    """Find random operators, also in bodies: name -> random type."""
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
    """Return whether a node is a constant of at most eight bits, read as real numbers."""
    if node.get_type_name() != "Constant" or node.get_element_type().bitwidth > MAX_BITS:
        return False
    return any(
        reader.get_type_name() == "Convert" and reader.get_element_type().is_real()
        for reader in readers(node)
    )


def without_integer_kernels(model: ov.Model) -> ov.Model:
    """Clone a model that rounds to the same levels, but computes in real numbers.

    Plain operators replace each ``FakeQuantize`` of an activation and the two ``Convert`` after it,
    of which devices make integer kernels.
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
    """Compute a ``FakeQuantize`` by its definition in the operator set."""
    from openvino import opset13 as ops

    x, low, high, lowest, highest = node.input_values()
    steps = ops.constant(node.get_attributes()["levels"] - 1, x.get_element_type())
    share = ops.divide(ops.subtract(x, low), ops.subtract(high, low))
    level = ops.round(ops.multiply(share, steps), "half_to_even")
    span = ops.subtract(highest, lowest)
    inside = ops.add(ops.multiply(ops.divide(level, steps), span), lowest)
    above_low = ops.select(ops.greater(x, high), highest, inside)
    return ops.select(ops.less_equal(x, low), lowest, above_low).output(0)
