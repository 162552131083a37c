"""Vision Transformer (Dosovitskiy et al. 2021) with patches of 16 x 16."""

from __future__ import annotations

from typing import NamedTuple

import openvino as ov
from openvino import opset13 as ops

from placement_gym.base import UserError
from placement_gym.models.builder import Builder, Tensor

PATCH, PATCHES = 16, 14 * 14
WIDENING, EPSILON = 4, 1e-6


class Width(NamedTuple):
    size: int
    heads: int


SMALL, BASE = Width(384, 6), Width(768, 12)
DEFAULT_LAYERS, MAX_LAYERS = 12, 48


def build(compressed: bool = False, layers: int | None = None) -> ov.Model:
    """Build ViT for one 224 x 224 image: ``layers`` of ViT-B's width, or by default ViT-S."""
    if layers is not None and not 1 <= layers <= MAX_LAYERS:
        raise UserError(f"vit has 1 to {MAX_LAYERS} layers, not {layers}")
    width = SMALL if layers is None else BASE
    b = Builder(seed=2021, compressed=compressed)
    image = b.parameter("image", (1, 3, 224, 224))
    x = embed_patches(b, image, width.size)
    for layer in range(DEFAULT_LAYERS if layers is None else layers):
        x = transformer_block(b, f"layer{layer}", x, width)
    x = b.layer_norm("norm", x, EPSILON)
    index, axis = b.constant("head/index", 0), b.constant("head/axis", 1)
    logits = b.dense("head", b.name(ops.gather(x, index, axis), "head/class"), 1000)
    return b.model("vit", {"logits": logits}, [image])


def embed_patches(b: Builder, image: Tensor, width: int) -> ov.Node:
    """Add (1, 197, width): class token and patches, with positions."""
    x = b.conv_bn("patches", image, width, PATCH, stride=PATCH, gain=1.0)
    x = b.reshape("patches/flatten", x, [1, width, PATCHES])
    x = b.name(ops.transpose(x, b.constant("patches/order", [0, 2, 1])), "patches/transpose")
    token = b.weight("class", b.uniform((1, 1, width), -0.5, 0.5))
    x = b.name(ops.concat([token, x], 1), "patches/concat")
    positions = b.weight("positions", b.uniform((1, PATCHES + 1, width), -0.5, 0.5))
    return b.name(ops.add(x, positions), "patches/positions")


def transformer_block(b: Builder, name: str, x: Tensor, width: Width) -> ov.Node:
    """Add attention of (batch, tokens, width) and two dense layers, with residual sums."""
    attended = attend(b, f"{name}/attention", b.layer_norm(f"{name}/norm1", x, EPSILON), width)
    x = b.name(ops.add(attended, x), f"{name}/sum1")
    normed = b.layer_norm(f"{name}/norm2", x, EPSILON)
    inner = b.dense(f"{name}/inner", normed, WIDENING * width.size)
    inner = b.name(ops.gelu(inner, "erf"), f"{name}/gelu")
    return b.name(ops.add(b.dense(f"{name}/outer", inner, width.size), x), f"{name}/sum2")


def attend(b: Builder, name: str, x: Tensor, width: Width) -> ov.Node:
    """Add attention of (batch, tokens, width) to all tokens of a row."""
    query, key, value = (b.split_heads(f"{name}/{part}", x, width.heads) for part in "qkv")
    context = b.attend(name, query, key, value)
    order = b.constant(f"{name}/merge/order", [0, 2, 1, 3])
    merged = b.name(ops.transpose(context, order), f"{name}/merge")
    shape = [x.shape[0], x.shape[1], width.size]
    return b.dense(f"{name}/output", b.reshape(f"{name}/flat", merged, shape), width.size)
