"""Features of units, in blocks of fixed width: those of HSDAG, and work."""

from __future__ import annotations

import numpy as np

from placement_gym.base import FloatArray, IntArray, kernel
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.units import Units

TYPE_NAMES = (
    "Add AvgPool BatchNormInference Broadcast Clamp Concat Constant Convert Convolution "
    "ConvolutionBackpropData Divide Elu Equal Erf Exp FakeQuantize FullyConnected GRUSequence "
    "Gather GatherElements GatherND Gelu Greater GroupConvolution "
    "GroupConvolutionBackpropData GroupNormalization HSigmoid HSwish HardSigmoid If "
    "Interpolate LRN LSTMCell LSTMSequence Less LogSoftmax LogicalAnd LogicalNot Loop MVN "
    "MatMul MaxPool Maximum Minimum Mish Multiply Negative NonMaxSuppression NormalizeL2 Not "
    "OneHot PRelu Pad Parameter Power RMS Range ReLU ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum Relu Reshape Result RoPE ScaledDotProductAttention ScatterNDUpdate "
    "ScatterUpdate Select ShapeOf Sigmoid Sin Slice SoftPlus Softmax SpaceToDepth Split Sqrt "
    "SquaredDifference Squeeze StridedSlice Subtract Swish Tanh TensorIterator Tile TopK "
    "Transpose Unsqueeze VariadicSplit"
)
TYPES = tuple(sorted(TYPE_NAMES.split()))
OTHER_TYPE = len(TYPES)
MAX_RANK = 6
"""Number of last dimensions of an output shape that are features. Hand-tuned."""
MAX_DEGREE = 8
"""Largest degree with a separate column. Hand-tuned."""
POSITIONS = 16
"""Columns of the positional encoding. Hand-tuned."""
MAX_PERIOD = 1000.0
"""Longest period of the positional encoding. Hand-tuned; Vaswani et al. (2017) use 10,000."""
MAX_RADIUS = 16
"""Largest distance for the fractal dimension. Hand-tuned."""
MAX_BALL_SIZE = 1024
"""Number of nodes at which counting stops, to bound the time. Hand-tuned."""


def type_shares(units: Units) -> FloatArray:
    """(n, n_types + 1) share of each operator type in a unit; the last column is other types."""
    index = {kind: column for column, kind in enumerate(TYPES)}
    columns = np.array([index.get(kind, OTHER_TYPE) for kind in units.graph.types])
    counts = np.zeros((len(units), OTHER_TYPE + 1))
    np.add.at(counts, (units.of_operator, columns), 1.0)
    return counts / counts.sum(axis=1, keepdims=True)


def shapes(graph: OpGraph) -> FloatArray:
    """(n, 6) log(1 + extent) of the output's last six dimensions, zero-padded on the left."""
    padded = np.zeros((len(graph), MAX_RANK))
    for row, shape in enumerate(graph.shapes):
        tail = shape[-MAX_RANK:]
        padded[row, MAX_RANK - len(tail) :] = tail
    return np.log1p(padded)


def degrees(graph: OpGraph, incoming: bool) -> FloatArray:
    """(n, 9) one-hot degree; the last column means eight or more."""
    degree = graph.in_degree() if incoming else graph.out_degree()
    return np.eye(MAX_DEGREE + 1)[np.minimum(degree, MAX_DEGREE)]


def work(graph: OpGraph) -> FloatArray:
    """(n, 3) log(1 + kFLOP), log(1 + kB of weights), log(1 + kB of tensors read by others)."""
    output_bytes = np.bincount(graph.tensors.source, graph.tensors.size_bytes, len(graph))
    return np.log1p(np.stack([graph.flops, graph.weight_bytes, output_bytes], axis=1) / 1e3)


def positions(n: int) -> FloatArray:
    """(n, 16) sines and cosines of the topological index, base 1000 (HSDAG, section 2.3)."""
    angles = np.arange(n)[:, None] / MAX_PERIOD ** (2 * np.arange(POSITIONS // 2) / POSITIONS)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(n, POSITIONS)


def fractal_dimension(
    graph: OpGraph, radius: int = MAX_RADIUS, limit: int = MAX_BALL_SIZE
) -> FloatArray:
    """(n, 1) slope of log N(v, r) over log r, with N(v, r) nodes within undirected distance r.

    It ends at ``radius``, at ``limit`` nodes, or when N stops growing.
    """
    ends = np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1)
    order = np.argsort(ends[0], kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(ends[0], minlength=len(graph)))])
    return slopes(count_within_distance(first, np.ascontiguousarray(ends[1][order]), radius, limit))


@kernel
def count_within_distance(
    first: IntArray, neighbours: IntArray, radius: int, limit: int
) -> IntArray:
    """(n, radius) number of nodes, at most ``limit``, within distance 1, 2, ... of each node.

    Args:
        first: (n + 1,) first position of each node's neighbours.
        neighbours: (2 * n_edges,) neighbours in the undirected graph.
        radius: Maximum distance.
        limit: Maximum count; it makes the work linear in the number of nodes.
    """
    n = len(first) - 1
    sizes = np.empty((n, radius), np.int64)
    seen_by = np.full(n, -1, np.int64)
    queue = np.empty(max(limit, 1), np.int64)
    # Marking by centre saves clearing the marks before each search.
    for centre in range(n):
        seen_by[centre] = centre
        queue[0] = centre
        begin, end = 0, 1
        for distance in range(radius):
            level_end = end
            while begin < level_end and end < limit:
                node = queue[begin]
                begin += 1
                for position in range(first[node], first[node + 1]):
                    if end == limit:
                        break
                    other = neighbours[position]
                    if seen_by[other] != centre:
                        seen_by[other] = centre
                        queue[end] = other
                        end += 1
            sizes[centre, distance] = end
            if end == limit:
                for larger in range(distance, radius):
                    sizes[centre, larger] = end
                break
    return sizes


def slopes(sizes: IntArray) -> FloatArray:
    """(n, 1) least-squares slope of log size over log r, while the size grows."""
    grows = np.ones(sizes.shape, dtype=bool)
    grows[:, 1:] = sizes[:, 1:] > sizes[:, :-1]
    weight = grows / grows.sum(axis=1, keepdims=True)
    x = np.log(np.arange(1, sizes.shape[1] + 1))[None, :]
    y = np.log(sizes)
    dx = x - (weight * x).sum(axis=1, keepdims=True)
    dy = y - (weight * y).sum(axis=1, keepdims=True)
    spread = (weight * dx * dx).sum(axis=1)
    covariance = (weight * dx * dy).sum(axis=1)
    return np.divide(covariance, spread, out=np.zeros(len(y)), where=spread > 0)[:, None]
