"""Inception-V3 (Szegedy et al. 2016) without the auxiliary classifier."""

from __future__ import annotations

import openvino as ov
from numpy import float32
from openvino import opset13 as ops

from placement_gym.models.builder import Builder, Tensor

ROW, COLUMN = ((1, 7), (0, 3)), ((7, 1), (3, 0))
"""Kernel and padding of the two factors of a 7x7 convolution."""


def build(compressed: bool = False) -> ov.Model:
    """Build Inception-V3 for one 299 x 299 image; about 728 nodes as fp16 (HSDAG, Table 1)."""
    b = Builder(seed=3, compressed=compressed)
    image = b.parameter("image", (1, 3, 299, 299))
    x = stem(b, normalize(b, image))
    for index, pool_features in enumerate((32, 64, 64)):
        x = block_a(b, f"a{index}", x, pool_features)
    x = reduction_a(b, "reduce_a", x)
    for index, width in enumerate((128, 160, 160, 192)):
        x = block_b(b, f"b{index}", x, width)
    x = reduction_b(b, "reduce_b", x)
    for index in range(2):
        x = block_c(b, f"c{index}", x)
    return b.model("inception", {"logits": b.classifier("classifier", x, 1000)}, [image])


def normalize(b: Builder, image: Tensor) -> ov.Node:
    """Convert ImageNet's per-channel scaling to Inception's, channel by channel."""
    scales, shifts = (0.458, 0.448, 0.45), (-0.03, -0.088, -0.188)
    channels = []
    for index, (scale, shift) in enumerate(zip(scales, shifts, strict=True)):
        name = f"normalise{index}"
        picked = ops.gather(
            image, b.constant(f"{name}/index", index), b.constant(f"{name}/axis", 1)
        )
        plane = ops.unsqueeze(b.name(picked, f"{name}/gather"), b.constant(f"{name}/axes", 1))
        factor = b.constant(f"{name}/scale", [[[[scale]]]], float32)
        offset = b.constant(f"{name}/shift", [[[[shift]]]], float32)
        scaled = ops.multiply(b.name(plane, f"{name}/unsqueeze"), factor)
        channels.append(b.name(ops.add(b.name(scaled, f"{name}/multiply"), offset), f"{name}/add"))
    return concat(b, "normalise/concat", channels)


def stem(b: Builder, x: Tensor) -> Tensor:
    x = conv(b, "stem1", x, 32, 3, stride=2)
    x = conv(b, "stem2", x, 32, 3)
    x = conv(b, "stem3", x, 64, 3, padding=1)
    x = b.max_pool("stem/pool1", x, 3, stride=2)
    x = conv(b, "stem4", x, 80, 1)
    x = conv(b, "stem5", x, 192, 3)
    return b.max_pool("stem/pool2", x, 3, stride=2)


def block_a(b: Builder, name: str, x: Tensor, pool_features: int) -> ov.Node:
    """35 x 35: 1x1, 5x5, double 3x3 and pool branches."""
    five = conv(b, f"{name}/5x5_1", x, 48, 1)
    three = conv(b, f"{name}/3x3_1", x, 64, 1)
    three = conv(b, f"{name}/3x3_2", three, 96, 3, padding=1)
    branches = [
        conv(b, f"{name}/1x1", x, 64, 1),
        conv(b, f"{name}/5x5_2", five, 64, 5, padding=2),
        conv(b, f"{name}/3x3_3", three, 96, 3, padding=1),
        conv(b, f"{name}/pool_proj", average_pool(b, f"{name}/pool", x), pool_features, 1),
    ]
    return concat(b, f"{name}/concat", branches)


def reduction_a(b: Builder, name: str, x: Tensor) -> ov.Node:
    """35 x 35 to 17 x 17."""
    double = conv(b, f"{name}/double1", x, 64, 1)
    double = conv(b, f"{name}/double2", double, 96, 3, padding=1)
    branches = [
        conv(b, f"{name}/3x3", x, 384, 3, stride=2),
        conv(b, f"{name}/double3", double, 96, 3, stride=2),
        b.max_pool(f"{name}/pool", x, 3, stride=2),
    ]
    return concat(b, f"{name}/concat", branches)


def block_b(b: Builder, name: str, x: Tensor, width: int) -> ov.Node:
    """17 x 17: 7x7 convolutions factored into 1x7 and 7x1."""
    single = conv(b, f"{name}/single1", x, width, 1)
    single = conv(b, f"{name}/single2", single, width, *ROW)
    double = conv(b, f"{name}/double1", x, width, 1)
    for index, shape in enumerate((COLUMN, ROW, COLUMN), start=2):
        double = conv(b, f"{name}/double{index}", double, width, *shape)
    branches = [
        conv(b, f"{name}/1x1", x, 192, 1),
        conv(b, f"{name}/single3", single, 192, *COLUMN),
        conv(b, f"{name}/double5", double, 192, *ROW),
        conv(b, f"{name}/pool_proj", average_pool(b, f"{name}/pool", x), 192, 1),
    ]
    return concat(b, f"{name}/concat", branches)


def reduction_b(b: Builder, name: str, x: Tensor) -> ov.Node:
    """17 x 17 to 8 x 8."""
    three = conv(b, f"{name}/3x3_1", x, 192, 1)
    seven = conv(b, f"{name}/7x7_1", x, 192, 1)
    seven = conv(b, f"{name}/7x7_2", seven, 192, *ROW)
    seven = conv(b, f"{name}/7x7_3", seven, 192, *COLUMN)
    branches = [
        conv(b, f"{name}/3x3_2", three, 320, 3, stride=2),
        conv(b, f"{name}/7x7_4", seven, 192, 3, stride=2),
        b.max_pool(f"{name}/pool", x, 3, stride=2),
    ]
    return concat(b, f"{name}/concat", branches)


def block_c(b: Builder, name: str, x: Tensor) -> ov.Node:
    """8 x 8: the 3x3 branches fork into 1x3 and 3x1."""
    single = conv(b, f"{name}/single1", x, 384, 1)
    double = conv(b, f"{name}/double1", x, 448, 1)
    double = conv(b, f"{name}/double2", double, 384, 3, padding=1)
    branches = [
        conv(b, f"{name}/1x1", x, 320, 1),
        fork(b, f"{name}/single", single),
        fork(b, f"{name}/double", double),
        conv(b, f"{name}/pool_proj", average_pool(b, f"{name}/pool", x), 192, 1),
    ]
    return concat(b, f"{name}/concat", branches)


def fork(b: Builder, name: str, x: Tensor) -> ov.Node:
    row = conv(b, f"{name}/row", x, 384, (1, 3), padding=(0, 1))
    column = conv(b, f"{name}/column", x, 384, (3, 1), padding=(1, 0))
    return concat(b, f"{name}/concat", [row, column])


def conv(
    b: Builder,
    name: str,
    x: Tensor,
    channels: int,
    kernel: int | tuple[int, int],
    padding: int | tuple[int, int] = 0,
    stride: int = 1,
) -> ov.Node:
    return b.relu(f"{name}/relu", b.conv_bn(name, x, channels, kernel, stride, padding))


def average_pool(b: Builder, name: str, x: Tensor) -> ov.Node:
    return b.name(ops.avg_pool(x, [1, 1], [1, 1], [1, 1], [3, 3], exclude_pad=False), name)


def concat(b: Builder, name: str, tensors: list[ov.Node]) -> ov.Node:
    return b.name(ops.concat(tensors, axis=1), name)
