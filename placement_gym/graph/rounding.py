"""Rounding in quantised models: nodes that round activations, and the memory of weights.

A device computes an operator in integers only if its submodel holds the rounding of its inputs: a
``FakeQuantize``, or the chain of ONNX's ``QuantizeLinear`` and ``DequantizeLinear``. So these nodes
belong to the operators that read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placement_gym.base import BoolArray
from placement_gym.graph.operators import QUANTIZE, OpGraph

if TYPE_CHECKING:
    import openvino as ov

RESTORE = ("Subtract", "Multiply")
"""Types that follow a ``Convert`` of integers to real numbers."""
MAX_BITS = 8
"""Maximum bits of quantised models."""


def weight_bytes(node: ov.Node) -> int:
    """Return the bytes that a device stores of a node; zero except for constants.

    Devices round weights before a ``FakeQuantize`` of at most 256 levels to one byte each.
    """
    if node.get_type_name() != "Constant":
        return 0
    if all(is_rounded(node, reader) for reader in readers(node)):
        return int(np.prod(node.get_shape()))
    return int(node.get_byte_size())


def is_rounded(node: ov.Node, reader: ov.Node) -> bool:
    """Return whether a reader rounds a constant to eight bits, directly or after a ``Convert``."""
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

    These are ``FakeQuantize``, and ONNX's chain after it: a ``Convert`` to integers and one back, a
    ``Subtract`` and a ``Multiply``. ``static`` are nodes whose values are known without data.
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
    """(n,) whether each node reads data, and all of it rounded."""
    result = np.zeros(len(raw), dtype=np.bool_)
    for node, sources in enumerate(raw.predecessors()):
        data = [source for source in sources if not static[source]]
        result[node] = bool(data) and all(rounds[source] for source in data)
    return result
