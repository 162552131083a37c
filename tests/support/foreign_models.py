"""Small networks from outside the zoo, with random weights, as users bring them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from onnx_files import Writer
from openvino import opset13 as ops

CHANNELS, SIZE, CLASSES = 8, 16, 5
WIDTH, HEADS = 16, 2
"""Of a token, and of the attention."""


def save_residual_onnx(path: Path) -> Path:
    """Write a residual CNN of sixteen operators as ONNX."""
    rng, out = np.random.default_rng(0), Writer()

    def weight(name: str, *shape: int) -> str:
        return out.constant(name, rng.normal(0.0, 0.2, shape).astype(np.float32))

    def convolve(source: str, output: str, channels: int) -> str:
        kernel = weight(f"{output}.kernel", CHANNELS, channels, 3, 3)
        bias = weight(f"{output}.bias", CHANNELS)
        return out.add("Conv", [source, kernel, bias], output, pads=[1, 1, 1, 1])

    last = out.add("Relu", [convolve("image", "stem", 3)], "stem.relu")
    for block in ("first", "second", "third"):
        inner = out.add("Relu", [convolve(last, f"{block}.a", CHANNELS)], f"{block}.relu")
        joined = out.add("Add", [convolve(inner, f"{block}.b", CHANNELS), last], f"{block}.add")
        last = out.add("Relu", [joined], f"{block}.out")
    pooled = out.add("Flatten", [out.add("GlobalAveragePool", [last], "pool")], "flat")
    matrix, bias = weight("head.matrix", CHANNELS, CLASSES), weight("head.bias", CLASSES)
    out.add("Gemm", [pooled, matrix, bias], "scores")
    return out.save(path, {"image": [1, 3, SIZE, SIZE]}, {"scores": [1, CLASSES]})


def make_chain(n_layers: int = 6, channels: int = CHANNELS, size: int = SIZE) -> ov.Model:
    """A plain CNN: each operator has one producer and one reader, so one unit by colocation."""
    rng = np.random.default_rng(0)
    image = ops.parameter((1, channels, size, size), np.float32, name="image")
    last = image
    for layer in range(n_layers):
        kernel = rng.normal(0.0, 0.15, (channels, channels, 3, 3)).astype(np.float32)
        last = ops.convolution(
            last, kernel, [1, 1], [1, 1], [1, 1], [1, 1], name=f"convolution{layer}"
        )
        last = ops.relu(last, name=f"relu{layer}")
    return ov.Model([ops.result(last)], [image], "chain")


def save_chain_ir(path: Path) -> Path:
    """Write the chain as OpenVINO's IR."""
    ov.save_model(make_chain(), path, compress_to_fp16=False)
    return path


def draw_matrix(rng: np.random.Generator, *shape: int) -> ov.Node:
    return ops.constant(rng.normal(0.0, 0.4, shape).astype(np.float32))


def size(x: ov.Node | ov.Output, axis: int) -> ov.Node:
    """One of the sizes of a tensor, computed."""
    return ops.gather(ops.shape_of(x, "i64"), ops.constant([axis]), ops.constant(0))


def split_heads(x: ov.Node, matrix: ov.Node, tokens: ov.Node) -> ov.Node:
    """A product in heads, whose shape is computed from the tokens."""
    width = ops.constant([HEADS, WIDTH // HEADS])
    shape = ops.concat([size(tokens, 0), size(tokens, 1), width], 0)
    product = ops.matmul(x, matrix, False, False)
    return ops.transpose(ops.reshape(product, shape, False), ops.constant([0, 2, 1, 3]))


def join_heads(x: ov.Node, tokens: ov.Node) -> ov.Node:
    shape = ops.concat([size(tokens, 0), size(tokens, 1), ops.constant([WIDTH])], 0)
    return ops.reshape(ops.transpose(x, ops.constant([0, 2, 1, 3])), shape, False)


def name_by_place(model: ov.Model) -> ov.Model:
    """The model, whose nodes have the same names whenever it is made."""
    for number, node in enumerate(model.get_ordered_ops()):
        if node.get_friendly_name() == node.get_name():
            node.set_friendly_name(f"{node.get_type_name()}/{number}")
    return model


def make_decoder() -> ov.Model:
    """A language model as exporters write it: batch and tokens are dynamic, shapes are computed.

    States begin as a Broadcast to the batch of the inputs, beams reorder them, the positions follow
    from the length of the first state, and attention is made of its parts.
    """
    rng = np.random.default_rng(0)

    def remember(name: str, new: ov.Node) -> ov.Node:
        shape = ops.concat([size(tokens, 0), ops.constant([HEADS, 0, WIDTH // HEADS])], 0)
        empty = ops.broadcast(ops.constant(np.float32(0.0)), shape)
        past = ops.read_value(empty, name, np.float32, [-1, HEADS, -1, WIDTH // HEADS])
        pasts.append(past)
        whole = ops.concat([ops.gather(past, beams, ops.constant(0)), new], 2)
        sinks.append(ops.assign(whole, name))
        return whole

    tokens, mask = (ops.parameter([-1, -1], np.int64, name=name) for name in ("input_ids", "mask"))
    beams = ops.parameter([-1], np.int32, name="beam_idx")
    for port in (tokens, mask, beams):
        port.output(0).get_tensor().set_names({port.get_friendly_name()})
    sinks: list[ov.Node] = []
    pasts: list[ov.Node] = []
    hidden = ops.multiply(ops.subtract(ops.constant(np.float32(1.0)), ops.convert(mask, "f32")),
                          ops.constant(np.float32(-1e4)))  # fmt: skip
    hidden = ops.unsqueeze(hidden, ops.constant([1, 2]))
    x: ov.Node = ops.gather(draw_matrix(rng, 8, WIDTH), tokens, ops.constant(0))
    for layer in range(2):
        query, key, value = (
            split_heads(x, draw_matrix(rng, WIDTH, WIDTH), tokens) for _ in range(3)
        )
        key, value = remember(f"key{layer}", key), remember(f"value{layer}", value)
        if layer == 0:
            past = ops.squeeze(size(pasts[0], 2), ops.constant([0]))
            end = ops.add(past, ops.squeeze(size(tokens, 1), ops.constant([0])))
            places = ops.range(past, end, ops.constant(1), "i64")
            wave = ops.unsqueeze(ops.sin(ops.convert(places, "f32")), ops.constant([0, 2]))
        scores = ops.add(ops.matmul(query, key, False, True), hidden)
        context = ops.matmul(ops.softmax(scores, -1), value, False, False)
        x = ops.add(x, ops.add(ops.tanh(join_heads(context, tokens)), wave))
    logits = ops.matmul(x, draw_matrix(rng, WIDTH, 8), False, False)
    return ov.Model([ops.result(logits)], sinks, [tokens, mask, beams], "decoder")


def make_encoder(n_layers: int = 2) -> ov.Model:
    """An encoder without state whose batch and tokens are dynamic, shapes computed from its input.

    Its attention is made of parts.
    """
    rng = np.random.default_rng(0)
    tokens = ops.parameter([-1, -1], np.int64, name="input_ids")
    tokens.output(0).get_tensor().set_names({"input_ids"})
    x: ov.Node = ops.gather(draw_matrix(rng, 8, WIDTH), tokens, ops.constant(0))
    for _ in range(n_layers):
        query, key, value = (
            split_heads(x, draw_matrix(rng, WIDTH, WIDTH), tokens) for _ in range(3)
        )
        scores = ops.softmax(ops.matmul(query, key, False, True), -1)
        context = ops.matmul(scores, value, False, False)
        x = ops.add(x, ops.tanh(join_heads(context, tokens)))
    logits = ops.matmul(x, draw_matrix(rng, WIDTH, 8), False, False)
    return name_by_place(ov.Model([ops.result(logits)], [tokens], "encoder"))


def make_token_classifier() -> ov.Model:
    """Attention over any number of vectors after one of its own, so that none has length zero."""
    rng = np.random.default_rng(0)
    x = ops.parameter([1, -1, WIDTH], np.float32, name="x")
    x.output(0).get_tensor().set_names({"x"})
    y = ops.concat([draw_matrix(rng, 1, 1, WIDTH), x], 1)
    for _ in range(2):
        query, key, value = (
            ops.matmul(y, draw_matrix(rng, WIDTH, WIDTH), False, False) for _ in range(3)
        )
        scores = ops.softmax(ops.matmul(query, key, False, True), -1)
        y = ops.add(y, ops.tanh(ops.matmul(scores, value, False, False)))
    return name_by_place(ov.Model([ops.result(y)], [x], "token_classifier"))


def ones_of(sizes: Mapping[str, Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    """Inputs of these sizes."""
    return {name: np.ones(shape, np.int64) for name, shape in sizes.items()}
