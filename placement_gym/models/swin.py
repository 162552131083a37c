"""Windows of attention that shift from layer to layer, in the manner of Swin (Liu et al. 2021)."""

from __future__ import annotations

import openvino as ov
from openvino import opset13 as ops

from placement_gym.errors import UserError
from placement_gym.models.attention import Width, attend, feed_forward, layer_norm
from placement_gym.models.builder import Builder, Tensor

SIDE, PATCH, WINDOW, WIDTH, HEADS = 224, 4, 7, 96, 3
DEPTHS = (2, 2, 6, 2)
MAX_DEPTH = 48


def build(compressed: bool = False, layers: int = DEPTHS[2]) -> ov.Model:
    """Four stages for one 224 x 224 image, with windows of 7 x 7.

    Unlike in Swin there are neither position biases nor masks: shifted windows wrap around.

    Args:
        compressed: Store weights as float16.
        layers: Layers of the third stage: 6 for Swin-T, 18 for Swin-S.

    Raises:
        ValueError: ``layers`` is not between 1 and 48.
    """
    if not 1 <= layers <= MAX_DEPTH:
        raise UserError(f"swin has 1 to {MAX_DEPTH} layers in its third stage, not {layers}")
    b = Builder(seed=7, compressed=compressed)
    image = b.parameter("image", (1, 3, SIDE, SIDE))
    side, width = SIDE // PATCH, Width(WIDTH, HEADS)
    x = b.conv_bn("patches", image, width.size, PATCH, stride=PATCH, gain=1.0)
    x = b.reshape("patches/flatten", x, [1, width.size, side * side])
    x = b.name(ops.transpose(x, b.constant("patches/order", [0, 2, 1])), "patches/transpose")
    for stage, depth in enumerate((*DEPTHS[:2], layers, DEPTHS[3])):
        if stage:
            x, side, width = merge(b, f"merge{stage}", x, side, width)
        for layer in range(depth):
            x = window_block(b, f"stage{stage}/layer{layer}", x, side, width, layer % 2 == 1)
    axes = b.constant("head/axes", [1])
    pooled = b.name(ops.reduce_mean(layer_norm(b, "norm", x), axes), "head/pool")
    return b.model("swin", {"logits": b.dense("head", pooled, 1000)}, [image])


def window_block(
    b: Builder, name: str, x: Tensor, side: int, width: Width, shifted: bool
) -> ov.Node:
    """Attention inside of windows, which lie half a window further if shifted."""
    y = b.reshape(f"{name}/grid", layer_norm(b, f"{name}/norm1", x), [1, side, side, width.size])
    if shifted:
        y = roll(b, f"{name}/shift", y, -(WINDOW // 2))
    y = attend(b, f"{name}/attention", cut_windows(b, f"{name}/cut", y, side, width), width)
    y = join_windows(b, f"{name}/join", y, side, width)
    if shifted:
        y = roll(b, f"{name}/unshift", y, WINDOW // 2)
    y = b.reshape(f"{name}/tokens", y, [1, side * side, width.size])
    return feed_forward(b, name, b.name(ops.add(y, x), f"{name}/sum1"), width)


def roll(b: Builder, name: str, x: Tensor, by: int) -> ov.Node:
    shift, axes = b.constant(f"{name}/by", [by, by]), b.constant(f"{name}/axes", [1, 2])
    return b.name(ops.roll(x, shift, axes), name)


def cut_windows(b: Builder, name: str, x: Tensor, side: int, width: Width) -> ov.Node:
    """(windows, 49, width) from (1, side, side, width)."""
    n = side // WINDOW
    x = b.reshape(f"{name}/split", x, [n, WINDOW, n, WINDOW, width.size])
    x = b.name(ops.transpose(x, b.constant(f"{name}/order", [0, 2, 1, 3, 4])), name)
    return b.reshape(f"{name}/rows", x, [n * n, WINDOW * WINDOW, width.size])


def join_windows(b: Builder, name: str, x: Tensor, side: int, width: Width) -> ov.Node:
    """(1, side, side, width) from (windows, 49, width)."""
    n = side // WINDOW
    x = b.reshape(f"{name}/split", x, [n, n, WINDOW, WINDOW, width.size])
    x = b.name(ops.transpose(x, b.constant(f"{name}/order", [0, 2, 1, 3, 4])), name)
    return b.reshape(f"{name}/grid", x, [1, side, side, width.size])


def merge(b: Builder, name: str, x: Tensor, side: int, width: Width) -> tuple[ov.Node, int, Width]:
    """Four neighbouring tokens become one of twice the width; returns the new sizes, too."""
    half, size = side // 2, width.size
    x = b.reshape(f"{name}/split", x, [half, 2, half, 2, size])
    x = b.name(ops.transpose(x, b.constant(f"{name}/order", [0, 2, 1, 3, 4])), name)
    x = b.reshape(f"{name}/rows", x, [1, half * half, 4 * size])
    merged = b.dense(f"{name}/reduce", layer_norm(b, f"{name}/norm", x), 2 * size)
    return merged, half, Width(2 * size, 2 * width.heads)
