"""Graphs without a model; each operator is what a device runs as one primitive."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from placement_gym.base import FloatArray, IntArray
from placement_gym.graph.operators import OpGraph, Tensors, distinct_edges

BYTES_OF_F32 = 4


class GraphBuilder:
    """Builder of a graph in topological order; methods that add an operator return its index."""

    def __init__(self) -> None:
        self.types: list[str] = []
        self.shapes: list[tuple[int, ...]] = []
        self.flops: list[float] = []
        self.weight_bytes: list[int] = []
        self.edges: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.types)

    def add(
        self,
        kind: str,
        shape: tuple[int, ...],
        inputs: Sequence[int] = (),
        flops: float | None = None,
        weights: int = 0,
    ) -> int:
        """Add an operator of an OpenVINO type with a number of ``weights``.

        By default ``flops`` are one per output element.
        """
        self.types.append(kind)
        self.shapes.append(shape)
        self.flops.append(float(prod(shape)) if flops is None else flops)
        self.weight_bytes.append(BYTES_OF_F32 * weights)
        self.edges += [(source, len(self) - 1) for source in inputs]
        return len(self) - 1

    def vector(self, kind: str, *inputs: int) -> int:
        """Add an elementwise operator; its output has the shape of the first input."""
        return self.add(kind, self.shapes[inputs[0]], inputs)

    def matmul(self, x: int, width: int, rows: int | None = None) -> int:
        """Multiply ``rows`` of (..., height, k), by default all, by (k, width) weights."""
        *_, height, depth = self.shapes[x]
        height = height if rows is None else rows
        flops = 2.0 * height * depth * width
        return self.add("MatMul", (1, height, width), (x,), flops, depth * width)

    def product(self, a: int, b: int, shape: tuple[int, ...], depth: int) -> int:
        """Multiply two tensors; ``depth`` is the length of the summed dimension."""
        return self.add("MatMul", shape, (a, b), 2.0 * float(prod(shape)) * depth)

    def convolution(self, x: int, channels: int, kernel: int, stride: int = 1) -> int:
        """Convolve (1, c, h, w); an activation is included."""
        _, depth, height, width = self.shapes[x]
        shape = (1, channels, max(height // stride, 1), max(width // stride, 1))
        weights = channels * depth * kernel * kernel
        return self.add("Convolution", shape, (x,), 2.0 * weights * shape[2] * shape[3], weights)

    def concat(self, inputs: Sequence[int]) -> int:
        """Concatenate tensors of equal height and width along their channels."""
        _, _, height, width = self.shapes[inputs[0]]
        channels = sum(self.shapes[x][1] for x in inputs)
        return self.add("Concat", (1, channels, height, width), inputs, 0.0)

    def graph(self, name: str) -> OpGraph:
        return op_graph(
            name,
            np.array(self.edges, dtype=np.int64).T,
            tuple(self.types),
            tuple(self.shapes),
            np.array(self.weight_bytes, dtype=np.int64),
            np.array(self.flops),
            np.array([BYTES_OF_F32 * prod(shape) for shape in self.shapes]),
        )


def op_graph(
    name: str,
    edges: IntArray,
    types: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    weight_bytes: IntArray,
    flops: FloatArray,
    size_bytes: IntArray,
) -> OpGraph:
    """Build a graph whose operators have one output each, which all successors read."""
    edges = distinct_edges(edges.astype(np.int64))
    names = tuple(f"op{i}" for i in range(len(types)))
    return OpGraph(
        model=name,
        names=names,
        types=types,
        shapes=shapes,
        element_types=("f32",) * len(types),
        members=tuple((name,) for name in names),
        weight_bytes=weight_bytes,
        flops=flops,
        edge_index=edges,
        tensors=Tensors.one_each(edges, size_bytes),
        inputs=(),
    )
