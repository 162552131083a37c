"""Decoder like GPT-2 (Radford et al. 2019), with a key-value cache as its state.

Inputs, state and dynamic dimensions are those of language models exported by optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from placement_gym.base import UserError
from placement_gym.models.builder import Builder, Tensor

POSITIONS, EPSILON = 1024, 1e-5
MAX_LAYERS = 96
HIDDEN = -65504.0
"""Bias of masked tokens: the lowest number of f16."""
FeedForward = Callable[[Builder, str, ov.Node], ov.Node]
"""Adds the second half of a layer, given its name and normalised input."""


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    vocabulary: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads


SMALL = Size(layers=4, width=256, heads=4, vocabulary=4096)
GPT2 = Size(layers=12, width=768, heads=12, vocabulary=50257)


def build(compressed: bool = False, bits: int | None = None, layers: int | None = None) -> ov.Model:
    """Build a decoder for one sequence; see ``Builder`` for ``compressed`` and ``bits``.

    ``layers`` have GPT-2's width and vocabulary; None makes a ``SMALL`` decoder.
    """
    if layers is not None and not 1 <= layers <= MAX_LAYERS:
        raise UserError(f"gpt has 1 to {MAX_LAYERS} layers, not {layers}")
    size = SMALL if layers is None else replace(GPT2, layers=layers)
    b = Builder(seed=2019, compressed=compressed, bits=bits)
    return build_decoder(b, size, "gpt", feed_forward)


def build_decoder(b: Builder, size: Size, title: str, forward: FeedForward) -> ov.Model:
    """Build a decoder whose layers have a feed-forward part ``forward``."""
    names = ("input_ids", "attention_mask", "position_ids")
    tokens, mask, positions = (b.parameter(name, (1, -1), np.int64) for name in names)
    table = b.weight("embeddings/token/table", b.uniform((size.vocabulary, size.width), -0.1, 0.1))
    bias = attention_bias(b, mask, positions)
    x = embeddings(b, size, table, tokens, positions)
    sinks: list[ov.Node] = []
    for layer in range(size.layers):
        x = decoder_layer(b, size, f"layer{layer}", x, bias, sinks, forward)
    logits = b.name(ops.matmul(b.layer_norm("norm", x, EPSILON), table, False, True), "head/matmul")
    return b.model(title, {"logits": logits}, [tokens, mask, positions], sinks)


def attention_bias(b: Builder, mask: Tensor, positions: Tensor) -> ov.Node:
    """Add (1, 1, new tokens, all tokens): 0 where a token attends to another, else ``HIDDEN``."""
    axis = b.constant("mask/axis", 1)
    counted = b.name(ops.cum_sum(mask, axis, exclusive=True), "mask/positions")
    key = b.name(ops.unsqueeze(counted, b.constant("mask/key/axes", [1, 2])), "mask/key")
    query = b.name(ops.unsqueeze(positions, b.constant("mask/query/axes", [1, 3])), "mask/query")
    causal = b.name(ops.less_equal(key, query), "mask/causal")
    seen = b.constant("mask/seen", 0.0, np.float32)
    hidden = b.constant("mask/hidden", HIDDEN, np.float32)
    return b.name(ops.select(causal, seen, hidden), "mask/bias")


def embeddings(b: Builder, size: Size, table: Tensor, tokens: Tensor, positions: Tensor) -> ov.Node:
    axis = b.constant("embeddings/axis", 0)
    token = b.name(ops.gather(table, tokens, axis), "embeddings/token")
    places = b.weight("embeddings/position/table", b.uniform((POSITIONS, size.width), -0.1, 0.1))
    position = b.name(ops.gather(places, positions, axis), "embeddings/position")
    return b.name(ops.add(token, position), "embeddings/add")


def decoder_layer(
    b: Builder,
    size: Size,
    name: str,
    x: Tensor,
    bias: Tensor,
    sinks: list[ov.Node],
    forward: FeedForward,
) -> ov.Node:
    """Add a layer; append its ``Assign`` operators to ``sinks``."""
    attended = attention(b, size, name, b.layer_norm(f"{name}/norm1", x, EPSILON), bias, sinks)
    x = b.name(ops.add(b.dense(f"{name}/output", attended, size.width), x), f"{name}/sum1")
    outputs = forward(b, name, b.layer_norm(f"{name}/norm2", x, EPSILON))
    return b.name(ops.add(outputs, x), f"{name}/sum2")


def feed_forward(b: Builder, name: str, x: ov.Node) -> ov.Node:
    """Add a dense layer of four times the width, and one back."""
    width = x.output(0).partial_shape[2].get_length()
    inner = b.name(ops.gelu(b.dense(f"{name}/inner", x, 4 * width), "tanh"), f"{name}/gelu")
    return b.dense(f"{name}/outer", inner, width)


def attention(
    b: Builder, size: Size, name: str, x: Tensor, bias: Tensor, sinks: list[ov.Node]
) -> ov.Node:
    query, new_key, new_value = (
        heads(b, size, f"{name}/{part}", x) for part in ("query", "key", "value")
    )
    key = remember(b, size, f"{name}/key", new_key, sinks)
    value = remember(b, size, f"{name}/value", new_value, sinks)
    attended = ops.scaled_dot_product_attention(query, key, value, bias)
    context = b.transpose(f"{name}/merge", b.name(attended, f"{name}/attention"))
    return b.reshape(f"{name}/merge/reshape", context, [0, 0, size.width], special_zero=True)


def heads(b: Builder, size: Size, name: str, x: Tensor) -> ov.Node:
    """Project ``x`` to (1, heads, new tokens, head width)."""
    shape = [0, 0, size.heads, size.head_width]
    split = b.reshape(f"{name}/split", b.dense(name, x, size.width), shape, special_zero=True)
    return b.transpose(name, split)


def remember(b: Builder, size: Size, name: str, new: Tensor, sinks: list[ov.Node]) -> ov.Node:
    """Append ``new`` keys or values to their cache: (1, heads, all tokens, head width)."""
    shape = [1, size.heads, 0, size.head_width]
    empty = b.name(ops.constant(np.zeros(shape, np.float32)), f"{name}/empty")
    variable = f"{name}/cache"
    cache = ops.read_value(empty, variable, np.float32, [1, size.heads, -1, size.head_width])
    past = b.name(cache, f"{name}/past")
    joined = b.name(ops.concat([past, new], 2), f"{name}/all")
    sinks.append(b.name(ops.assign(joined, variable), f"{name}/assign"))
    return joined
