"""MobileNet-V2 (Sandler et al. 2018): inverted residuals with depthwise convolutions."""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from placement_gym.base import UserError
from placement_gym.models.builder import Builder, Tensor

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and stride."""


def build(compressed: bool = False, percent: int = 100) -> ov.Model:
    """Build MobileNet-V2 for one 224 x 224 image, its layers scaled to ``percent``."""
    if not 35 <= percent <= 400:
        raise UserError(f"mobilenet has a width of 35 to 400 percent, not {percent}")
    b = Builder(seed=18, compressed=compressed)
    image = b.parameter("image", (1, 3, 224, 224))
    x: Tensor = clamp(b, "stem/clamp", b.conv_bn("stem", image, scale(32, percent), 3, 2, 1))
    for stage, (expansion, channels, blocks, stride) in enumerate(STAGES):
        for block in range(blocks):
            name, step = f"stage{stage}/block{block}", stride if block == 0 else 1
            x = inverted_residual(b, name, x, expansion, scale(channels, percent), step)
    x = clamp(b, "head/clamp", b.conv_bn("head", x, scale(1280, max(percent, 100)), 1))
    return b.model("mobilenet", {"logits": b.classifier("classifier", x, 1000)}, [image])


def scale(channels: int, percent: int) -> int:
    """Scale channels to a multiple of eight."""
    return max(8 * round(channels * percent / 800), 8)


def inverted_residual(
    b: Builder, name: str, x: Tensor, expansion: int, channels: int, stride: int
) -> ov.Node:
    """Expand, convolve each channel, project, and add the input if shapes agree."""
    inputs, y = x.shape[1], x
    if expansion > 1:
        expanded = b.conv_bn(f"{name}/expand", x, expansion * inputs, 1)
        y = clamp(b, f"{name}/expand/clamp", expanded)
    y = clamp(b, f"{name}/depthwise/clamp", depthwise(b, f"{name}/depthwise", y, stride))
    y = b.conv_bn(f"{name}/project", y, channels, 1, gain=0.7)
    if stride > 1 or inputs != channels:
        return y
    return b.name(ops.add(y, x), f"{name}/sum")


def depthwise(b: Builder, name: str, x: Tensor, stride: int) -> ov.Node:
    """Add a 3 x 3 convolution of each channel, with a bias."""
    channels = x.shape[1]
    weights = b.weight(f"{name}/weight", b.fan_in((channels, 1, 1, 3, 3), 9, gain=1.4))
    conv = ops.group_convolution(x, weights, [stride] * 2, [1, 1], [1, 1], [1, 1])
    bias = b.weight(f"{name}/bias", b.uniform((1, channels, 1, 1), -0.2, 0.2))
    return b.name(ops.add(b.name(conv, f"{name}/conv"), bias), f"{name}/add")


def clamp(b: Builder, name: str, x: Tensor) -> ov.Node:
    """Add ReLU6."""
    return b.name(ops.clamp(x, np.float32(0.0), np.float32(6.0)), name)
