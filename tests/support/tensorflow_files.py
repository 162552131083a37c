"""Files of TensorFlow and TensorFlow Lite, written byte by byte: neither has to be installed."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

FLOAT = 1
"""A tensor of f32 in a graph of TensorFlow."""
Field: TypeAlias = "int | Sequence[int] | str | bytes | Sequence[Table]"
Table: TypeAlias = "Mapping[int, Field]"


def save_pb(path: Path, width: int = 4) -> Path:
    """Write a frozen graph: a convolution of NHWC, two branches, their sum, and a softmax."""
    rng = np.random.default_rng(0)
    strides = entry(1, b"".join(entry(3, 1) for _ in range(4)))
    convolution = {"strides": strides, "padding": entry(2, "SAME"), "data_format": entry(2, "NHWC")}
    size = entry(7, sizes([1, 8, 8, 3]))
    graph = [
        node("x", "Placeholder", [], {"dtype": entry(6, FLOAT), "shape": size}),
        constant("w", rng.random((3, 3, 3, width), dtype=np.float32)),
        constant("b", rng.random(width, dtype=np.float32)),
        node("conv", "Conv2D", ["x", "w"], {"T": entry(6, FLOAT), **convolution}),
        node("bias", "BiasAdd", ["conv", "b"], {"T": entry(6, FLOAT)}),
        node("left", "Relu", ["bias"], {"T": entry(6, FLOAT)}),
        node("right", "Tanh", ["bias"], {"T": entry(6, FLOAT)}),
        node("sum", "AddV2", ["left", "right"], {"T": entry(6, FLOAT)}),
        node("y", "Softmax", ["sum"], {"T": entry(6, FLOAT)}),
    ]
    path.write_bytes(b"".join(graph))
    return path


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def entry(number: int, value: int | str | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def sizes(shape: Sequence[int]) -> bytes:
    return b"".join(entry(2, entry(1, size)) for size in shape)


def node(name: str, kind: str, inputs: Sequence[str], attributes: Mapping[str, bytes]) -> bytes:
    values = [entry(5, entry(1, key) + entry(2, value)) for key, value in attributes.items()]
    reads = [entry(3, source) for source in inputs]
    return entry(1, entry(1, name) + entry(2, kind) + b"".join([*reads, *values]))


def constant(name: str, values: np.ndarray) -> bytes:
    tensor = entry(1, FLOAT) + entry(2, sizes(values.shape)) + entry(4, values.tobytes())
    return node(name, "Const", [], {"dtype": entry(6, FLOAT), "value": entry(8, tensor)})


def save_tflite(path: Path, width: int = 4) -> Path:
    """Write the same network for TensorFlow Lite."""
    rng = np.random.default_rng(0)
    weights = rng.random((width, 3, 3, 3), dtype=np.float32)
    bias = rng.random(width, dtype=np.float32)
    shape = [1, 8, 8, width]
    # Fields have the numbers of TensorFlow Lite's schema.fbs.
    tensors: list[Table] = [
        {0: size, 2: buffer, 3: name}
        for name, size, buffer in [
            ("x", [1, 8, 8, 3], 0),
            ("w", [width, 3, 3, 3], 1),
            ("b", [width], 2),
            ("conv", shape, 0),
            ("left", shape, 0),
            ("right", shape, 0),
            ("sum", shape, 0),
            ("y", shape, 0),
        ]
    ]
    codes: list[Table] = [{0: code, 2: 1, 3: code} for code in (0, 3, 19, 25, 28)]
    add, convolution, relu, softmax, tanh = range(len(codes))
    one = int(np.float32(1).view(np.int32))
    operators: list[Table] = [
        {0: convolution, 1: [0, 1, 2], 2: [3], 3: 1, 4: {1: 1, 2: 1, 4: 1, 5: 1}},
        {0: relu, 1: [3], 2: [4]},
        {0: tanh, 1: [3], 2: [5]},
        {0: add, 1: [4, 5], 2: [6], 3: 11, 4: {}},
        {0: softmax, 1: [6], 2: [7], 3: 9, 4: {0: one}},
    ]
    graph: Table = {0: tensors, 1: [0], 2: [7], 3: operators}
    buffers: list[Table] = [{}, {0: weights.tobytes()}, {0: bias.tobytes()}]
    model = {0: 3, 1: codes, 2: [graph], 4: buffers}
    content = bytearray(struct.pack("<I4s", 0, b"TFL3"))
    struct.pack_into("<I", content, 0, write(content, model))
    path.write_bytes(content)
    return path


def write(content: bytearray, value: Field) -> int:
    """Append a table or vector of a flat buffer, each number in four bytes; returns its place."""
    if isinstance(value, dict):
        slots = range(max(value, default=-1) + 1)
        places = {slot: 4 * index for index, slot in enumerate(sorted(value), 1)}
        header = [4 + 2 * len(slots), 4 + 4 * len(value), *(places.get(slot, 0) for slot in slots)]
        table = len(content) + 2 * (len(header) + len(header) % 2)
        content += struct.pack(f"<{len(header)}H{2 * (len(header) % 2)}x", *header)
        content += struct.pack("<i", 2 * (len(header) + len(header) % 2)) + bytes(4 * len(value))
        fields = [(table + places[slot], value[slot]) for slot in sorted(value)]
    else:
        table = len(content)
        content += struct.pack("<I", len(value))
        if isinstance(value, (str, bytes)):
            text = value.encode() if isinstance(value, str) else value
            content += text + bytes(4 - len(text) % 4)
            return table
        content += bytes(4 * len(value))
        fields = [(table + 4 * index, one) for index, one in enumerate(value, 1)]
    for place, one in fields:
        number = one if isinstance(one, int) else write(content, one) - place
        struct.pack_into("<i", content, place, number)
    return table
