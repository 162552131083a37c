"""A small residual CNN, in float32 or quantised as post-training quantisation leaves it.

Quantised, every convolution and the classifier read a ``FakeQuantize`` of 256 levels for the whole
tensor, and weights of 255 levels for each output channel (Jacob et al. 2018, arXiv:1712.05877).
Weights take the middle half of their levels, as by ``overflow_fix`` of NNCF: a processor without
VNNI adds two products in 16 bits, and 2 x 255 x 127 would overflow there, 2 x 255 x 64 does not.
Ranges of activations are those that the float model has on one random image. It is computed with
NumPy, and ranges are rounded to two digits, so that they are the same on every processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import numpy as np
import openvino as ov
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from openvino import opset13 as ops

from placement_gym.models.builder import Builder

IMAGE = (1, 3, 64, 64)
STAGES = ((2, 32, 2), (2, 64, 2), (2, 128, 2))
"""Blocks, channels and stride."""
CLASSES = 100
LEVELS, WEIGHT_LEVELS = 256, 255
"""Of unsigned and signed integers of eight bits; the lowest signed one is not used."""


@dataclass(frozen=True)
class Activation:
    """A tensor of the model, and its values in the float model on the random image."""

    node: ov.Node
    sample: NDArray[Any]


def build(compressed: bool = False, bits: int | None = None) -> ov.Model:
    """A residual network of six blocks for one 64 x 64 image.

    Args:
        compressed: Store weights as float16.
        bits: 8 quantises weights and activations; None leaves them in float32.
    """
    b = Builder(seed=8, compressed=compressed)
    layers = Layers(b, quantized=bits is not None)
    image = b.parameter("image", IMAGE)
    x = layers.quantize("image", Activation(image, b.uniform(IMAGE, 0.0, 1.0)))
    for stage, (blocks, channels, stride) in enumerate(STAGES):
        for block in range(blocks):
            x = residual_block(layers, f"stage{stage}/block{block}", x, channels, stride)
            stride = 1
    return b.model("cnn", {"logits": layers.classifier("classifier", x).node}, [image])


def residual_block(
    layers: Layers, name: str, x: Activation, channels: int, stride: int
) -> Activation:
    """Two 3 x 3 convolutions parallel to a shortcut, projected where the shape changes."""
    y = layers.relu(f"{name}/relu1", layers.convolution(f"{name}/conv1", x, channels, 3, stride))
    y = layers.convolution(f"{name}/conv2", y, channels, 3)
    if stride > 1:
        x = layers.convolution(f"{name}/project", x, channels, 1, stride)
    return layers.relu(f"{name}/relu2", layers.add(f"{name}/sum", y, x))


class Layers:
    """Adds layers to a model, and computes them on the sample."""

    def __init__(self, builder: Builder, quantized: bool) -> None:
        self.builder = builder
        self.quantized = quantized

    def convolution(
        self, name: str, x: Activation, channels: int, kernel: int, stride: int = 1
    ) -> Activation:
        """A convolution that pads its image, and its bias."""
        b, inputs, padding = self.builder, x.sample.shape[1], kernel // 2
        shape = (channels, inputs, kernel, kernel)
        weights = b.fan_in(shape, inputs * kernel * kernel, gain=2.0**0.5)
        bias = b.uniform((1, channels, 1, 1), -0.2, 0.2)
        strides, pads = [stride] * 2, [padding] * 2
        node = b.name(
            ops.convolution(x.node, self.weight(name, weights), strides, pads, pads, [1, 1]),
            f"{name}/conv",
        )
        node = b.name(ops.add(node, b.weight(f"{name}/bias", bias)), f"{name}/add")
        return Activation(node, convolve(x.sample, weights, stride) + bias)

    def relu(self, name: str, x: Activation) -> Activation:
        activated = Activation(self.builder.relu(name, x.node), np.maximum(x.sample, 0.0))
        return self.quantize(name, activated)

    def add(self, name: str, x: Activation, y: Activation) -> Activation:
        return Activation(self.builder.name(ops.add(x.node, y.node), name), x.sample + y.sample)

    def classifier(self, name: str, x: Activation) -> Activation:
        """Global average pooling and a dense layer."""
        b, features = self.builder, x.sample.shape[1]
        axes = b.constant(f"{name}/axes", [2, 3])
        pooled = b.name(ops.reduce_mean(x.node, axes, keep_dims=False), f"{name}/pool")
        x = self.quantize(f"{name}/pool", Activation(pooled, x.sample.mean(axis=(2, 3))))
        weights = b.fan_in((CLASSES, features), features)
        matrix = self.weight(name, weights)
        product = b.name(ops.matmul(x.node, matrix, False, True), f"{name}/matmul")
        bias = b.uniform((1, CLASSES), -0.1, 0.1)
        node = b.name(ops.add(product, b.weight(f"{name}/bias", bias)), f"{name}/add")
        return Activation(node, np.einsum("ni,oi->no", x.sample, weights) + bias)

    def weight(self, name: str, value: NDArray[Any]) -> ov.Node:
        """Weights, quantised with a range of twice their own for each output channel."""
        node = self.builder.weight(f"{name}/weight", value)
        if not self.quantized:
            return node
        highest = 2.0 * np.abs(value).max(axis=tuple(range(1, value.ndim)), keepdims=True)
        return self.fake_quantize(f"{name}/weight", node, -highest, highest, WEIGHT_LEVELS)

    def quantize(self, name: str, x: Activation) -> Activation:
        """An activation on the range of its sample; the sample stays as it is."""
        if not self.quantized:
            return x
        shape = (1,) * x.sample.ndim
        low, high = min(float(x.sample.min()), 0.0), float(x.sample.max())
        ends = [np.full(shape, round_up(end), np.float32) for end in (low, high)]
        return Activation(self.fake_quantize(name, x.node, ends[0], ends[1], LEVELS), x.sample)

    def fake_quantize(
        self, name: str, x: ov.Node, low: NDArray[Any], high: NDArray[Any], levels: int
    ) -> ov.Node:
        b = self.builder
        ends = [
            b.constant(f"{name}/quantized/{end}", value, np.float32)
            for end, value in (("low", low), ("high", high))
        ]
        return b.name(ops.fake_quantize(x, *ends, *ends, levels), f"{name}/quantized")


def convolve(x: NDArray[Any], weights: NDArray[Any], stride: int) -> NDArray[Any]:
    """(1, out, rows, columns) float32: a convolution that pads by half of its odd kernel."""
    kernel = weights.shape[2]
    half = kernel // 2
    padded = np.pad(x, ((0, 0), (0, 0), (half, half), (half, half)))
    windows = sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]
    # no BLAS: its threads may wait for ever in the first call of a process on a busy machine
    return np.einsum("nirckl,oikl->norc", windows, weights)


def round_up(value: float) -> float:
    """A number with two significant digits, away from zero."""
    if value == 0.0:
        return 0.0
    unit = 10.0 ** (floor(log10(abs(value))) - 1)
    return float(np.copysign(ceil(abs(value) / unit) * unit, value))
