"""ResNet-50 (He et al. 2016), with the stride in the 3x3 convolution as in torchvision."""

from __future__ import annotations

import openvino as ov
from openvino import opset13 as ops

from placement_gym.models.builder import Builder, Tensor

STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))


def build(compressed: bool = False) -> ov.Model:
    """Build ResNet-50 for one 224 x 224 image; 396 nodes as fp16 (HSDAG, Table 1)."""
    b = Builder(seed=50, compressed=compressed)
    image = b.parameter("image", (1, 3, 224, 224))
    x: Tensor = b.relu("stem/relu", b.conv_bn("stem", image, 64, 7, stride=2, padding=3))
    x = b.max_pool("stem/pool", x, 3, stride=2, padding=1)
    for stage, (blocks, width, stride) in enumerate(STAGES, start=1):
        for block in range(blocks):
            first = block == 0
            x = bottleneck(b, f"stage{stage}/block{block}", x, width, stride if first else 1, first)
    return b.model("resnet", {"logits": b.classifier("classifier", x, 1000)}, [image])


def bottleneck(b: Builder, name: str, x: Tensor, width: int, stride: int, project: bool) -> ov.Node:
    """Add 1x1, 3x3 and 1x1 convolutions and a shortcut, projected if the shape changes."""
    y = b.relu(f"{name}/relu1", b.conv_bn(f"{name}/conv1", x, width, 1))
    y = b.relu(f"{name}/relu2", b.conv_bn(f"{name}/conv2", y, width, 3, stride, padding=1))
    y = b.conv_bn(f"{name}/conv3", y, 4 * width, 1, gain=0.5)
    shortcut = b.conv_bn(f"{name}/project", x, 4 * width, 1, stride, gain=1.0) if project else x
    return b.relu(f"{name}/relu3", b.name(ops.add(y, shortcut), f"{name}/sum"))
