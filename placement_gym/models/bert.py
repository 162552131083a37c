"""BERT-base (Devlin et al. 2019): encoder and pooler."""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from placement_gym.base import UserError
from placement_gym.models.builder import Builder, Tensor

LAYERS, HEADS, WIDTH, INNER = 12, 12, 768, 3072
VOCABULARY, POSITIONS, SEGMENTS = 30522, 512, 2
EPSILON = 1e-12


def build(compressed: bool = False, length: int = 128) -> ov.Model:
    """Build BERT-base for one sequence of ``length`` tokens (8 in HSDAG's paper)."""
    if not 1 <= length <= POSITIONS:
        raise UserError(f"bert takes 1 to {POSITIONS} tokens, not {length}")
    b = Builder(seed=110, compressed=compressed)
    names = ("input_ids", "attention_mask", "token_type_ids")
    tokens, mask, segments = (b.parameter(name, (1, length), np.int64) for name in names)
    bias = attention_bias(b, mask)
    x = embeddings(b, tokens, segments)
    for layer in range(LAYERS):
        x = encoder_layer(b, f"layer{layer}", x, bias)
    outputs = {"last_hidden_state": x, "pooler_output": pooler(b, x)}
    return b.model("bert", outputs, [tokens, mask, segments])


def attention_bias(b: Builder, mask: Tensor) -> ov.Node:
    """Add (1, 1, 1, tokens): 0 for valid tokens, else a large negative number."""
    x: Tensor = mask
    for step, axis in enumerate((1, 2), start=1):
        axes = b.constant(f"mask/axis{step}", axis)
        x = b.name(ops.unsqueeze(x, axes), f"mask/unsqueeze{step}")
    x = b.name(ops.convert(x, "f32"), "mask/convert")
    one = b.constant("mask/one", [[[[1.0]]]], np.float32)
    lowest = b.constant("mask/lowest", [[[[-1e4]]]], np.float32)
    x = b.name(ops.subtract(one, x), "mask/subtract")
    return b.name(ops.multiply(x, lowest), "mask/multiply")


def embeddings(b: Builder, tokens: Tensor, segments: Tensor) -> ov.Node:
    word = lookup(b, "embeddings/word", VOCABULARY, tokens)
    segment = lookup(b, "embeddings/segment", SEGMENTS, segments)
    positions = b.constant("embeddings/position/ids", [range(tokens.shape[1])])
    position = lookup(b, "embeddings/position", POSITIONS, positions)
    x = b.name(ops.add(word, segment), "embeddings/add_segment")
    x = b.name(ops.add(x, position), "embeddings/add_position")
    return b.layer_norm("embeddings/norm", x, EPSILON)


def lookup(b: Builder, name: str, rows: int, ids: Tensor) -> ov.Node:
    table = b.weight(f"{name}/table", b.uniform((rows, WIDTH), -0.05, 0.05))
    return b.name(ops.gather(table, ids, b.constant(f"{name}/axis", 0)), f"{name}/gather")


def encoder_layer(b: Builder, name: str, x: Tensor, bias: Tensor) -> ov.Node:
    attended = b.dense(f"{name}/output", attention(b, name, x, bias), WIDTH)
    residual = b.name(ops.add(attended, x), f"{name}/attention_sum")
    x = b.layer_norm(f"{name}/attention_norm", residual, EPSILON)
    inner = b.name(ops.gelu(b.dense(f"{name}/inner", x, INNER), "erf"), f"{name}/gelu")
    residual = b.name(ops.add(b.dense(f"{name}/outer", inner, WIDTH), x), f"{name}/sum")
    return b.layer_norm(f"{name}/norm", residual, EPSILON)


def attention(b: Builder, name: str, x: Tensor, bias: Tensor) -> ov.Node:
    parts = (f"{name}/{part}" for part in ("query", "key", "value"))
    query, key, value = (b.split_heads(part, x, HEADS) for part in parts)
    merged = b.transpose(f"{name}/merge", b.attend(name, query, key, value, bias))
    return b.reshape(f"{name}/merge/reshape", merged, [1, x.shape[1], WIDTH])


def pooler(b: Builder, x: Tensor) -> ov.Node:
    """Add a dense layer and tanh on the first token."""
    index, axis = b.constant("pooler/index", 0), b.constant("pooler/axis", 1)
    first = b.name(ops.gather(x, index, axis), "pooler/first")
    return b.name(ops.tanh(b.dense("pooler", first, WIDTH)), "pooler/tanh")
