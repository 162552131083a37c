"""Vision Transformer (Dosovitskiy et al. 2021) with patches of 16 x 16."""

from __future__ import annotations

import openvino as ov
from openvino import opset13 as ops

from placement_gym.errors import UserError
from placement_gym.models.attention import Width, layer_norm, transformer_block
from placement_gym.models.builder import Builder, Tensor

PATCH, PATCHES = 16, 14 * 14
SMALL, BASE = Width(384, 6), Width(768, 12)
DEFAULT_LAYERS, MAX_LAYERS = 12, 48


def build(compressed: bool = False, layers: int | None = None) -> ov.Model:
    """ViT for one 224 x 224 image.

    Args:
        compressed: Store weights as float16.
        layers: Layers of ViT-B's width, of which ViT-B has 12; None makes ViT-S.

    Raises:
        ValueError: ``layers`` is not between 1 and 48.
    """
    if layers is not None and not 1 <= layers <= MAX_LAYERS:
        raise UserError(f"vit has 1 to {MAX_LAYERS} layers, not {layers}")
    width = SMALL if layers is None else BASE
    b = Builder(seed=2021, compressed=compressed)
    image = b.parameter("image", (1, 3, 224, 224))
    x = embed_patches(b, image, width.size)
    for layer in range(DEFAULT_LAYERS if layers is None else layers):
        x = transformer_block(b, f"layer{layer}", x, width)
    x = layer_norm(b, "norm", x)
    index, axis = b.constant("head/index", 0), b.constant("head/axis", 1)
    logits = b.dense("head", b.name(ops.gather(x, index, axis), "head/class"), 1000)
    return b.model("vit", {"logits": logits}, [image])


def embed_patches(b: Builder, image: Tensor, width: int) -> ov.Node:
    """(1, 197, width): the class token and the patches, with their positions."""
    x = b.conv_bn("patches", image, width, PATCH, stride=PATCH, gain=1.0)
    x = b.reshape("patches/flatten", x, [1, width, PATCHES])
    x = b.name(ops.transpose(x, b.constant("patches/order", [0, 2, 1])), "patches/transpose")
    token = b.weight("class", b.uniform((1, 1, width), -0.5, 0.5))
    x = b.name(ops.concat([token, x], 1), "patches/concat")
    positions = b.weight("positions", b.uniform((1, PATCHES + 1, width), -0.5, 0.5))
    return b.name(ops.add(x, positions), "patches/positions")
