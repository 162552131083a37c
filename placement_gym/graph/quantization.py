"""Quantised models: which nodes round activations, and what weights take in memory.

A device runs an operator in integers only where it finds the rounding of its inputs in the same
submodel, as ``FakeQuantize``, or as the chain that readers of ONNX make of ``QuantizeLinear`` and
``DequantizeLinear``. Such nodes therefore belong to the operators that read them.

The integers may overflow: an x86 processor without VNNI adds two products in 16 bits, and cuts the
sum off. ``without_integer_kernels`` gives a model in which nothing can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placement_gym.base import BoolArray
from placement_gym.graph.bodies import list_all_nodes
from placement_gym.graph.operators import QUANTIZE, OpGraph

if TYPE_CHECKING:
    import openvino as ov

RESTORE = ("Subtract", "Multiply")
"""Types that follow a ``Convert`` where integers become real numbers again."""
MAX_BITS = 8
"""Bits of the widest integers that models are quantised to."""


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


def weight_bytes(node: ov.Node) -> int:
    """Bytes that a device holds of a node: those of a constant, else none.

    Weights behind a ``FakeQuantize`` of at most 256 levels take one byte each, as a device rounds
    them when it compiles the model.
    """
    if node.get_type_name() != "Constant":
        return 0
    if all(is_rounded(node, reader) for reader in readers(node)):
        return int(np.prod(node.get_shape()))
    return int(node.get_byte_size())


def is_rounded(node: ov.Node, reader: ov.Node) -> bool:
    """Return whether a reader of a constant rounds it to eight bits, maybe after a ``Convert``."""
    if reader.get_type_name() == "Convert":
        return all(is_rounded(reader, next_reader) for next_reader in readers(reader))
    if reader.get_type_name() != QUANTIZE or reader.get_attributes()["levels"] > 2**MAX_BITS:
        return False
    rounded: ov.Node = reader.input(0).get_source_output().get_node()
    return bool(rounded.get_friendly_name() == node.get_friendly_name())


def readers(node: ov.Node) -> list[ov.Node]:
    return [port.get_node() for output in node.outputs() for port in output.get_target_inputs()]


def rounding_nodes(raw: OpGraph, static: list[bool]) -> list[bool]:
    """(n,) whether each node only rounds an activation, on ranges that are known without data.

    That is each ``FakeQuantize``, and what follows of a chain of ONNX: a ``Convert`` to integers,
    one back, a ``Subtract`` and a ``Multiply``.

    Args:
        raw: Every IR node.
        static: (n,) whether the value of each is known without data.
    """
    rounds: list[bool] = []
    kinds = raw.types
    for node, sources in enumerate(raw.predecessors()):
        data = [source for source in sources if not static[source]]
        source = data[0] if len(data) == 1 else None
        if static[node] or source is None:
            rounds.append(False)
        elif kinds[node] == "Convert":
            rounds.append(rounds[source] and kinds[source] in (QUANTIZE, "Convert"))
        elif kinds[node] in RESTORE:
            rounds.append(rounds[source] and kinds[source] in ("Convert", "Subtract"))
        else:
            rounds.append(kinds[node] == QUANTIZE)
    return rounds


def reads_rounded(raw: OpGraph, static: list[bool], rounds: list[bool]) -> BoolArray:
    """(n,) whether all that each node reads of data is rounded.

    Args:
        raw: Every IR node.
        static: (n,) whether the value of each is known without data.
        rounds: (n,) ``rounding_nodes``.
    """
    result = np.zeros(len(raw), dtype=np.bool_)
    for node, sources in enumerate(raw.predecessors()):
        data = [source for source in sources if not static[source]]
        result[node] = bool(data) and all(rounds[source] for source in data)
    return result


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
