"""Small networks from outside the zoo, with random weights, as users bring them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino as ov
from onnx import TensorProto, helper, numpy_helper
from openvino import opset13 as ops

CHANNELS, SIZE, CLASSES = 8, 16, 5


def save_residual_onnx(path: Path) -> Path:
    """Write a residual CNN of sixteen operators as ONNX."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(name: str, *shape: int) -> str:
        values = rng.normal(0.0, 0.2, shape).astype(np.float32)
        weights.append(numpy_helper.from_array(values, name))
        return name

    def add(kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def convolve(source: str, output: str, channels: int) -> str:
        kernel = weight(f"{output}.kernel", CHANNELS, channels, 3, 3)
        bias = weight(f"{output}.bias", CHANNELS)
        return add("Conv", [source, kernel, bias], output, pads=[1, 1, 1, 1])

    last = add("Relu", [convolve("image", "stem", 3)], "stem.relu")
    for block in ("first", "second", "third"):
        inner = add("Relu", [convolve(last, f"{block}.a", CHANNELS)], f"{block}.relu")
        joined = add("Add", [convolve(inner, f"{block}.b", CHANNELS), last], f"{block}.add")
        last = add("Relu", [joined], f"{block}.out")
    pooled = add("Flatten", [add("GlobalAveragePool", [last], "pool")], "flat")
    matrix, bias = weight("head.matrix", CHANNELS, CLASSES), weight("head.bias", CLASSES)
    add("Gemm", [pooled, matrix, bias], "scores")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])
    graph = helper.make_graph(nodes, "residual", [image], [scores], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


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
