"""Small residual CNN, in float32 or quantised (Jacob et al. 2018, arXiv:1712.05877).

If quantised, convolutions and the classifier read activations of 256 levels for the whole tensor
and weights of 255 levels for each output channel. Weights only use the middle half of their levels,
as with NNCF's ``overflow_fix``: processors without VNNI add two products in 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import ArrayLike, NDArray
from openvino import opset13 as ops

from placement_gym.models.builder import Builder

IMAGE = (1, 3, 64, 64)
STAGES = ((2, 32, 2), (2, 64, 2), (2, 128, 2))
"""Blocks, channels and stride."""
CLASSES = 100
LEVELS, WEIGHT_LEVELS = 256, 255
"""Levels of unsigned and signed integers of eight bits; the lowest signed one is unused."""
HIGHEST = {
    "image": 1.0,
    "stage0/block0/relu1": 2.8,
    "stage0/block0/relu2": 4.2,
    "stage0/block1/relu1": 6.0,
    "stage0/block1/relu2": 6.9,
    "stage1/block0/relu1": 5.5,
    "stage1/block0/relu2": 8.2,
    "stage1/block1/relu1": 6.0,
    "stage1/block1/relu2": 11.0,
    "stage2/block0/relu1": 9.1,
    "stage2/block0/relu2": 16.0,
    "stage2/block1/relu1": 12.0,
    "stage2/block1/relu2": 18.0,
    "classifier/pool": 11.0,
}
"""Largest values of quantised activations of the float model on a random image."""


def build(compressed: bool = False, bits: int | None = None) -> ov.Model:
    """Build a residual network of six blocks for one 64 x 64 image; ``bits`` quantises it."""
    b = QuantizingBuilder(seed=8, compressed=compressed)
    b.quantizes = bits is not None
    image = b.parameter("image", IMAGE)
    b.uniform(IMAGE, 0.0, 1.0)  # the image of HIGHEST
    x = b.quantize("image", image)
    for stage, (blocks, channels, stride) in enumerate(STAGES):
        for block in range(blocks):
            x = residual_block(b, f"stage{stage}/block{block}", x, channels, stride)
            stride = 1
    axes = b.constant("classifier/axes", [2, 3])
    pooled = b.name(ops.reduce_mean(x, axes, keep_dims=False), "classifier/pool")
    logits = b.dense("classifier", b.quantize("classifier/pool", pooled), CLASSES)
    return b.model("cnn", {"logits": logits}, [image])


class QuantizingBuilder(Builder):
    """Builder that quantises weights and activations if ``quantizes``."""

    quantizes = False

    def weight(self, name: str, value: NDArray[Any]) -> ov.Node:
        """Add a weight; quantise it on twice its range for each output channel, except biases."""
        node = super().weight(name, value)
        if not self.quantizes or name.endswith("/bias"):
            return node
        highest = 2.0 * np.abs(value).max(axis=tuple(range(1, value.ndim)), keepdims=True)
        return self.fake_quantize(name, node, -highest, highest, WEIGHT_LEVELS)

    def quantize(self, name: str, x: ov.Node) -> ov.Node:
        """Quantise an activation on its range."""
        if not self.quantizes:
            return x
        low, high = (np.full((1,) * len(x.shape), end) for end in (0.0, HIGHEST[name]))
        return self.fake_quantize(name, x, low, high, LEVELS)

    def fake_quantize(
        self, name: str, x: ov.Node, low: ArrayLike, high: ArrayLike, levels: int
    ) -> ov.Node:
        ends = [
            self.constant(f"{name}/quantized/{end}", value, np.float32)
            for end, value in (("low", low), ("high", high))
        ]
        return self.name(ops.fake_quantize(x, *ends, *ends, levels), f"{name}/quantized")


def residual_block(
    b: QuantizingBuilder, name: str, x: ov.Node, channels: int, stride: int
) -> ov.Node:
    """Add two 3 x 3 convolutions and a shortcut, projected if the shape changes."""
    y = b.relu(f"{name}/relu1", convolution(b, f"{name}/conv1", x, channels, 3, stride))
    y = convolution(b, f"{name}/conv2", b.quantize(f"{name}/relu1", y), channels, 3)
    if stride > 1:
        x = convolution(b, f"{name}/project", x, channels, 1, stride)
    x = b.relu(f"{name}/relu2", b.name(ops.add(y, x), f"{name}/sum"))
    return b.quantize(f"{name}/relu2", x)


def convolution(
    b: Builder, name: str, x: ov.Node, channels: int, kernel: int, stride: int = 1
) -> ov.Node:
    """Add a convolution with padding and a bias."""
    inputs, pads = x.shape[1], [kernel // 2] * 2
    weights = b.fan_in((channels, inputs, kernel, kernel), inputs * kernel**2, gain=2.0**0.5)
    bias = b.uniform((1, channels, 1, 1), -0.2, 0.2)
    weight = b.weight(f"{name}/weight", weights)
    node = b.name(ops.convolution(x, weight, [stride] * 2, pads, pads, [1, 1]), f"{name}/conv")
    return b.name(ops.add(node, b.weight(f"{name}/bias", bias)), f"{name}/add")
