"""DenseNet (Huang et al. 2017): every layer of a block reads all layers before it."""

from __future__ import annotations

import openvino as ov
from openvino import opset13 as ops

from placement_gym.errors import UserError
from placement_gym.models.builder import Builder, Tensor

GROWTH = 32
BLOCKS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}
"""Layers of each block, by the number that names the network."""


def build(compressed: bool = False, layers: int = 121) -> ov.Model:
    """DenseNet for one 224 x 224 image.

    Args:
        compressed: Store weights as float16.
        layers: 121, 169 or 201.

    Raises:
        ValueError: There is no such network.
    """
    if layers not in BLOCKS:
        raise UserError(f"densenet has {sorted(BLOCKS)} layers, not {layers}")
    b = Builder(seed=layers, compressed=compressed)
    image = b.parameter("image", (1, 3, 224, 224))
    x: Tensor = b.relu("stem/relu", b.conv_bn("stem", image, 2 * GROWTH, 7, 2, 3))
    x = b.max_pool("stem/pool", x, 3, stride=2, padding=1)
    for block, deep in enumerate(BLOCKS[layers]):
        x = transition(b, f"transition{block}", x) if block else x
        x = dense_block(b, f"block{block}", x, deep)
    x = normalise(b, "head", x)
    return b.model("densenet", {"logits": b.classifier("classifier", x, 1000)}, [image])


def dense_block(b: Builder, name: str, x: Tensor, deep: int) -> Tensor:
    """Layers whose outputs are concatenated to what the next one reads."""
    for layer in range(deep):
        inner = f"{name}/layer{layer}"
        y = b.conv_bn(f"{inner}/reduce", normalise(b, inner, x), 4 * GROWTH, 1)
        y = b.conv_bn(f"{inner}/grow", b.relu(f"{inner}/relu", y), GROWTH, 3, padding=1, gain=1.0)
        x = b.name(ops.concat([x, y], 1), f"{inner}/concat")
    return x


def transition(b: Builder, name: str, x: Tensor) -> ov.Node:
    """Halve channels, height and width."""
    y = b.conv_bn(name, normalise(b, name, x), x.shape[1] // 2, 1, gain=1.0)
    pooled = ops.avg_pool(y, [2, 2], [0, 0], [0, 0], [2, 2], exclude_pad=True)
    return b.name(pooled, f"{name}/pool")


def normalise(b: Builder, name: str, x: Tensor) -> ov.Node:
    """BatchNorm before a convolution, which cannot be folded into one, and ReLU."""
    shape = (1, x.shape[1], 1, 1)
    scale = b.weight(f"{name}/norm/scale", b.uniform(shape, 0.5, 1.0))
    shift = b.weight(f"{name}/norm/shift", b.uniform(shape, -0.2, 0.2))
    scaled = b.name(ops.multiply(x, scale), f"{name}/norm/multiply")
    return b.relu(f"{name}/norm/relu", b.name(ops.add(scaled, shift), f"{name}/norm/add"))
