"""Building blocks of built-in models: named operators with seeded random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import openvino as ov
from numpy.typing import ArrayLike, NDArray
from openvino import opset13 as ops

GROUP = 128
"""Weights of a row that share a scale in int4, as exporters choose."""
Tensor: TypeAlias = "ov.Output | ov.Node"


class Builder:
    """Adds named operators with weights from a seeded generator.

    Args:
        seed: Seed of the weights.
        compressed: Store weights as float16 with a ``Convert``, as in a compressed IR.
        bits: 8 stores matrices as int8, with a scale for each row, as in compressed language
            models; 4 stores those of dense layers as int4, with a scale for each ``GROUP``.
    """

    def __init__(self, seed: int = 0, compressed: bool = False, bits: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.compressed = compressed
        self.bits = bits

    def name(self, node: ov.Node, name: str) -> ov.Node:
        node.set_friendly_name(name)
        return node

    def constant(self, name: str, value: ArrayLike, dtype: type = np.int64) -> ov.Node:
        """Add a constant other than a weight, such as axes; it is never compressed."""
        return self.name(ops.constant(np.asarray(value, dtype=dtype)), name)

    def weight(self, name: str, value: NDArray[Any]) -> ov.Node:
        """Add a float32 weight, or a compressed one with operators that restore it."""
        if self.bits and value.ndim == 2:
            return self.int8_matrix(name, value)
        if not self.compressed:
            return self.name(ops.constant(value.astype(np.float32, copy=False)), name)
        stored = self.name(ops.constant(value.astype(np.float16)), f"{name}/compressed")
        return self.name(ops.convert(stored, "f32"), name)

    def int8_matrix(self, name: str, value: NDArray[Any]) -> ov.Node:
        scale = (np.abs(value).max(axis=1, keepdims=True) / 127.0).astype(np.float32)
        rounded = np.round(value / scale).astype(np.int8)
        return self.name(self.restore(name, ops.constant(rounded), scale), name)

    def restore(self, name: str, stored: ov.Node, scale: NDArray[np.float32]) -> ov.Node:
        self.name(stored, f"{name}/compressed")
        converted = self.name(ops.convert(stored, "f32"), f"{name}/converted")
        return ops.multiply(converted, self.name(ops.constant(scale), f"{name}/scale"))

    def dense_matrix(self, name: str, value: NDArray[Any]) -> ov.Node:
        if self.bits != 4:
            return self.weight(name, value)
        rows, columns = value.shape
        groups = value.reshape(rows, -1, GROUP if columns % GROUP == 0 else columns)
        scale = (np.abs(groups).max(axis=2, keepdims=True) / 7.0).astype(np.float32)
        rounded = np.round(groups / scale).astype(np.int8)
        low, high = rounded.reshape(-1, 2).T.view(np.uint8) & 15
        packed = ov.Tensor(low | high << 4, ov.Shape(groups.shape), ov.Type.i4)
        restored = self.restore(name, ov.op.Constant(packed, shared_memory=False), scale)
        return self.reshape(name, self.name(restored, f"{name}/restored"), [rows, columns])

    def uniform(self, shape: Sequence[int], low: float, high: float) -> NDArray[np.float32]:
        values = self.rng.random(shape, dtype=np.float32)
        values *= high - low
        values += low
        return values

    def fan_in(self, shape: Sequence[int], fan_in: int, gain: float = 1.0) -> NDArray[np.float32]:
        """Draw uniform weights with the variance ``gain**2 / fan_in``."""
        bound = gain * (3.0 / fan_in) ** 0.5
        return self.uniform(shape, -bound, bound)

    def conv_bn(
        self,
        name: str,
        x: Tensor,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        gain: float = 2.0**0.5,
    ) -> ov.Node:
        """Add a convolution with a folded BatchNorm, whose random bias no compiler removes."""
        rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = (padding, padding) if isinstance(padding, int) else padding
        inputs = x.shape[1]
        weights = self.fan_in((channels, inputs, rows, columns), inputs * rows * columns, gain)
        scale = self.uniform((channels,), 0.5, 1.5) / np.sqrt(self.uniform((channels,), 0.5, 1.5))
        mean, beta = self.uniform((2, channels), -0.2, 0.2)
        bias = (beta - mean * scale).reshape(1, -1, 1, 1)
        conv = ops.convolution(
            x,
            self.weight(f"{name}/weight", weights * scale.reshape(-1, 1, 1, 1)),
            strides=[stride, stride],
            pads_begin=list(pads),
            pads_end=list(pads),
            dilations=[1, 1],
        )
        self.name(conv, f"{name}/conv")
        return self.name(ops.add(conv, self.weight(f"{name}/bias", bias)), f"{name}/add")

    def relu(self, name: str, x: Tensor) -> ov.Node:
        return self.name(ops.relu(x), name)

    def max_pool(self, name: str, x: Tensor, kernel: int, stride: int, padding: int = 0) -> Tensor:
        pads = [padding, padding]
        pool = ops.max_pool(x, [stride] * 2, [1, 1], pads, pads, [kernel] * 2)
        return self.name(pool, name).output(0)

    def dense(self, name: str, x: Tensor, features: int) -> ov.Node:
        """Add a product with a transposed weight, and a bias."""
        shape = (x.output(0) if isinstance(x, ov.Node) else x).partial_shape
        rank, inputs = len(shape), shape[-1].get_length()
        matrix = self.fan_in((features, inputs), inputs)
        weights = self.dense_matrix(f"{name}/weight", matrix)
        product = self.name(ops.matmul(x, weights, False, True), f"{name}/matmul")
        bias_shape = (1,) * (rank - 1) + (features,)
        bias = self.weight(f"{name}/bias", self.uniform(bias_shape, -0.1, 0.1))
        return self.name(ops.add(product, bias), f"{name}/add")

    def reshape(
        self, name: str, x: Tensor, shape: Sequence[int], special_zero: bool = False
    ) -> ov.Node:
        """Add a Reshape; with ``special_zero``, 0 keeps a dimension of any length."""
        pattern = self.constant(f"{name}/pattern", shape)
        return self.name(ops.reshape(x, pattern, special_zero), name)

    def transpose(self, name: str, x: Tensor) -> ov.Node:
        """Swap the middle two of four dimensions: tokens and heads."""
        order = self.constant(f"{name}/order", [0, 2, 1, 3])
        return self.name(ops.transpose(x, order), f"{name}/transpose")

    def split_heads(self, name: str, x: Tensor, heads: int) -> ov.Node:
        """Project (batch, tokens, width) to (batch, heads, tokens, width / heads)."""
        batch, tokens, width = x.shape
        projected = self.dense(name, x, width)
        split = self.reshape(f"{name}/split", projected, [batch, tokens, heads, width // heads])
        return self.transpose(name, split)

    def attend(
        self, name: str, query: ov.Node, key: ov.Node, value: ov.Node, bias: Tensor | None = None
    ) -> ov.Node:
        """Add attention of (batch, heads, tokens, width) tensors."""
        scores = self.name(ops.matmul(query, key, False, True), f"{name}/scores")
        scale = self.constant(f"{name}/scale", [[[[query.shape[3] ** -0.5]]]], np.float32)
        scores = self.name(ops.multiply(scores, scale), f"{name}/scaled")
        if bias is not None:
            scores = self.name(ops.add(scores, bias), f"{name}/masked")
        shares = self.name(ops.softmax(scores, -1), f"{name}/softmax")
        return self.name(ops.matmul(shares, value, False, False), f"{name}/context")

    def layer_norm(self, name: str, x: Tensor, epsilon: float) -> ov.Node:
        """Normalise over the last of three dimensions."""
        axes = self.constant(f"{name}/axes", [-1])
        x = self.name(ops.mvn(x, axes, True, epsilon, "inside_sqrt"), f"{name}/mvn")
        shape = (1, 1, x.output(0).partial_shape[2].get_length())
        scale = self.weight(f"{name}/scale", self.uniform(shape, 0.5, 1.5))
        x = self.name(ops.multiply(x, scale), f"{name}/multiply")
        shift = self.weight(f"{name}/shift", self.uniform(shape, -0.1, 0.1))
        return self.name(ops.add(x, shift), f"{name}/add")

    def classifier(self, name: str, x: Tensor, classes: int) -> ov.Node:
        """Add global average pooling and a dense layer."""
        axes = self.constant(f"{name}/axes", [2, 3])
        pooled = self.name(ops.reduce_mean(x, axes, keep_dims=True), f"{name}/pool")
        flat = self.reshape(f"{name}/flatten", pooled, [1, x.shape[1]])
        return self.dense(name, flat, classes)

    def parameter(self, name: str, shape: Sequence[int], dtype: type = np.float32) -> ov.Node:
        node = ops.parameter(list(shape), dtype=dtype, name=name)
        node.output(0).get_tensor().set_names({name})
        return node

    def model(
        self,
        name: str,
        outputs: dict[str, Tensor],
        inputs: Sequence[ov.Node],
        sinks: Sequence[ov.Node] = (),
    ) -> ov.Model:
        """Build the model; ``sinks`` are its ``Assign`` operators."""
        results = [self.name(ops.result(tensor), key) for key, tensor in outputs.items()]
        return ov.Model(results, list(sinks), list(inputs), name)
