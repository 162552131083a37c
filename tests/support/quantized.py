"""A quantised model as exporters to ONNX write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

CHANNELS = (16, 32, 32)


class Writer:
    """Collects nodes and constants."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: ArrayLike) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def quantize(self, x: str, scale: float) -> str:
        """``QuantizeLinear`` and ``DequantizeLinear`` of an activation."""
        ends = [
            self.constant(f"{x}/scale", np.float32(scale)),
            self.constant(f"{x}/zero", np.uint8(0)),
        ]
        stored = self.add("QuantizeLinear", [x, *ends], f"{x}/quantize")
        return self.add("DequantizeLinear", [stored, *ends], f"{x}/dequantize")


def write_onnx(path: Path) -> None:
    """Write three convolutions with int8 weights and quantised activations."""
    rng, out, x, inputs = np.random.default_rng(0), Writer(), "image", 3
    for layer, channels in enumerate(CHANNELS):
        x = out.quantize(x, 4 / 255 if layer else 1 / 255)
        scale = np.full(channels, (6 / (9 * inputs)) ** 0.5 / 127, np.float32)
        stored = rng.integers(-127, 128, (channels, inputs, 3, 3)).astype(np.int8)
        parts = {"weight": stored, "scale": scale, "zero": np.zeros(channels, np.int8)}
        names = [out.constant(f"conv{layer}/{name}", value) for name, value in parts.items()]
        weight = out.add("DequantizeLinear", names, f"conv{layer}/weights", axis=0)
        bias = out.constant(f"conv{layer}/bias", rng.uniform(-0.1, 0.1, channels).astype("f4"))
        conv = out.add("Conv", [x, weight, bias], f"conv{layer}", pads=[1] * 4)
        x, inputs = out.add("Relu", [conv], f"relu{layer}"), channels
    out.add("GlobalAveragePool", [x], "pooled")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 32, 32])
    pooled = helper.make_tensor_value_info("pooled", TensorProto.FLOAT, [1, inputs, 1, 1])
    graph = helper.make_graph(out.nodes, "quantized", [image], [pooled], out.constants)
    version = helper.make_opsetid("", 13)
    onnx.save(helper.make_model(graph, opset_imports=[version], ir_version=8), path)
