"""Floating-point operations of one OpenVINO node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import openvino as ov

MOVES = (
    "Parameter Result Constant Reshape Squeeze Unsqueeze Transpose Concat Split VariadicSplit "
    "Gather GatherElements GatherND Slice StridedSlice ShapeOf Convert Broadcast Tile Pad "
    "ScatterUpdate ScatterNDUpdate DepthToSpace SpaceToDepth ReadValue Assign"
)
MOVING = frozenset(MOVES.split())
"""Types that only move data."""
PER_OUTPUT = {
    "Sigmoid": 4.0,
    "Tanh": 4.0,
    "Gelu": 8.0,
    "Swish": 5.0,
    "HSwish": 4.0,
    "Erf": 6.0,
    "Exp": 4.0,
    "SoftMax": 5.0,
    "Softmax": 5.0,
    "LogSoftmax": 6.0,
    "MVN": 6.0,
    "LRN": 6.0,
}


def node_flops(node: ov.Node) -> float:
    """Count the operations of one inference; a multiply-add is two.

    Types without a rule count one for each output element, types that move data none.
    """
    kind = node.get_type_name()
    if kind in MOVING or not node.get_output_size():
        return 0.0
    outputs = elements(node.output(0))
    return RULES[kind](node, outputs) if kind in RULES else PER_OUTPUT.get(kind, 1.0) * outputs


def elements(port: ov.Input | ov.Output) -> float:
    return float(np.prod(port.get_shape()))


def convolution(node: ov.Node, outputs: float) -> float:
    """Weights are (out, in, *kernel)."""
    return 2.0 * outputs * float(np.prod(node.input(1).get_shape()[1:]))


def group_convolution(node: ov.Node, outputs: float) -> float:
    """Weights are (groups, out, in, *kernel)."""
    return 2.0 * outputs * float(np.prod(node.input(1).get_shape()[2:]))


def backprop(node: ov.Node, outputs: float) -> float:
    """A transposed convolution spreads each input over (out, *kernel)."""
    skip = 2 if node.get_type_name().startswith("Group") else 1
    return 2.0 * elements(node.input(0)) * float(np.prod(node.input(1).get_shape()[skip:]))


def matmul(node: ov.Node, outputs: float) -> float:
    shape = node.input(0).get_shape()
    inner = shape[-2] if node.get_attributes()["transpose_a"] and len(shape) > 1 else shape[-1]
    return 2.0 * outputs * inner


def pooling(node: ov.Node, outputs: float) -> float:
    return outputs * float(np.prod(node.get_attributes()["kernel"]))


def reduction(node: ov.Node, outputs: float) -> float:
    return elements(node.input(0))


def choice(node: ov.Node, outputs: float) -> float:
    """All elements are compared, however few are chosen."""
    return sum(elements(port) for port in node.inputs())


def attention(node: ov.Node, outputs: float) -> float:
    """Two products over (queries, keys) and a softmax."""
    query, key = node.input(0).get_shape(), node.input(1).get_shape()
    rows = float(np.prod(query[:-1]))
    return rows * key[-2] * (2.0 * query[-1] + 2.0 * outputs / max(rows, 1.0) + 5.0)


def recurrent(node: ov.Node, outputs: float) -> float:
    """Weights (..., gates * hidden, inputs) are applied at each step."""
    weights = [port.get_shape() for port in node.inputs() if len(port.get_shape()) == 3]
    batch, steps = node.input(0).get_shape()[:2]
    return 2.0 * batch * steps * sum(float(np.prod(shape)) for shape in weights[-2:])


RULES: dict[str, Callable[[ov.Node, float], float]] = {
    "Convolution": convolution,
    "GroupConvolution": group_convolution,
    "ConvolutionBackpropData": backprop,
    "GroupConvolutionBackpropData": backprop,
    "MatMul": matmul,
    "MaxPool": pooling,
    "AvgPool": pooling,
    "ReduceMean": reduction,
    "ReduceSum": reduction,
    "ReduceMax": reduction,
    "ReduceMin": reduction,
    "ReduceProd": reduction,
    "ReduceL2": reduction,
    "NonMaxSuppression": choice,
    "MulticlassNms": choice,
    "MatrixNms": choice,
    "NonZero": choice,
    "Unique": choice,
    "ScaledDotProductAttention": attention,
    "LSTMSequence": recurrent,
    "GRUSequence": recurrent,
}
