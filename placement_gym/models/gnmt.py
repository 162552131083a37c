"""GNMT (Wu et al. 2016), unrolled: LSTM layers of encoder and decoder with attention."""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from placement_gym.errors import UserError
from placement_gym.models.builder import Builder, Tensor

LAYERS, WIDTH, VOCABULARY = 4, 512, 8000
MAX_STEPS = 500

State = tuple[Tensor, Tensor]


def build(compressed: bool = False, steps: int = 8) -> ov.Model:
    """An encoder and a decoder of four layers each, whose inputs are both sentences.

    Args:
        compressed: Store weights as float16.
        steps: Words of both sentences, to each of which the layers are unrolled.

    Raises:
        ValueError: ``steps`` is not between 1 and 500.
    """
    if not 1 <= steps <= MAX_STEPS:
        raise UserError(f"gnmt has 1 to {MAX_STEPS} steps, not {steps}")
    b = Builder(seed=2144, compressed=compressed)
    source, target = (b.parameter(name, (1, steps), np.int64) for name in ("source", "target"))
    words = split_words(b, "encoder", source, steps)
    forward = run_layer(b, "encoder/forward", words)
    backward = run_layer(b, "encoder/backward", words[::-1])[::-1]
    pairs = enumerate(zip(forward, backward, strict=True))
    x: list[Tensor] = [b.name(ops.add(*pair), f"encoder/both{t}") for t, pair in pairs]
    for layer in range(1, LAYERS):
        x = run_layer(b, f"encoder/layer{layer}", x, residual=layer > 1)
    stacked = ops.concat([ops.unsqueeze(one, b.constant("encoder/axis", 1)) for one in x], 1)
    encoded = b.name(stacked, "encoder/answers")
    x = run_layer(b, "decoder/layer0", split_words(b, "decoder", target, steps))
    x = [attend(b, f"decoder/attention{t}", one, encoded) for t, one in enumerate(x)]
    for layer in range(1, LAYERS):
        x = run_layer(b, f"decoder/layer{layer}", x, residual=layer > 1)
    table = b.weight("head/weight", b.fan_in((VOCABULARY, WIDTH), WIDTH))
    scores = [b.name(ops.matmul(one, table, False, True), f"head/{t}") for t, one in enumerate(x)]
    outputs: dict[str, Tensor] = {f"logits{t}": one for t, one in enumerate(scores)}
    return b.model("gnmt", outputs, [source, target])


def split_words(b: Builder, name: str, tokens: Tensor, steps: int) -> list[Tensor]:
    """(1, width) embedding of each word."""
    table = b.weight(f"{name}/table", b.uniform((VOCABULARY, WIDTH), -0.5, 0.5))
    axis = b.constant(f"{name}/gather/axis", 0)
    embedded = b.name(ops.gather(table, tokens, axis), f"{name}/gather")
    words, at = [], b.constant(f"{name}/words/axis", 1)
    for t in range(steps):
        index = b.constant(f"{name}/word{t}/index", t)
        words.append(b.name(ops.gather(embedded, index, at), f"{name}/word{t}"))
    return words


def run_layer(b: Builder, name: str, inputs: list[Tensor], residual: bool = False) -> list[Tensor]:
    """An LSTM layer, cell by cell, which share their weights."""
    weights = (
        b.weight(f"{name}/input", b.fan_in((4 * WIDTH, WIDTH), WIDTH)),
        b.weight(f"{name}/recurrent", b.fan_in((4 * WIDTH, WIDTH), WIDTH)),
        b.weight(f"{name}/bias", b.uniform((4 * WIDTH,), -0.1, 0.1)),
    )
    zero = b.constant(f"{name}/zero", np.zeros((1, WIDTH)), np.float32)
    hidden: Tensor = zero
    memory: Tensor = zero
    outputs: list[Tensor] = []
    for t, x in enumerate(inputs):
        cell = b.name(ops.lstm_cell(x, hidden, memory, *weights, WIDTH), f"{name}/cell{t}")
        hidden, memory = cell.output(0), cell.output(1)
        outputs.append(b.name(ops.add(hidden, x), f"{name}/sum{t}") if residual else hidden)
    return outputs


def attend(b: Builder, name: str, query: Tensor, encoded: Tensor) -> ov.Node:
    """A step of the decoder reads all answers of the encoder, (1, steps, width)."""
    scores = ops.matmul(b.reshape(f"{name}/row", query, [1, 1, WIDTH]), encoded, False, True)
    shares = b.name(ops.softmax(b.name(scores, f"{name}/scores"), -1), f"{name}/softmax")
    context = b.name(ops.matmul(shares, encoded, False, False), f"{name}/context")
    return b.name(ops.add(b.reshape(f"{name}/flat", context, [1, WIDTH]), query), f"{name}/sum")
