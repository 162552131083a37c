"""A quantised model as exporters to ONNX write it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx_files import Writer

CHANNELS = (16, 32, 32)


def quantize(out: Writer, x: str, scale: float) -> str:
    """``QuantizeLinear`` and ``DequantizeLinear`` of an activation."""
    ends = [out.constant(f"{x}/scale", np.float32(scale)), out.constant(f"{x}/zero", np.uint8(0))]
    stored = out.add("QuantizeLinear", [x, *ends], f"{x}/quantize")
    return out.add("DequantizeLinear", [stored, *ends], f"{x}/dequantize")


def write_onnx(path: Path) -> None:
    """Write three convolutions with int8 weights and quantised activations."""
    rng, out, x, inputs = np.random.default_rng(0), Writer(), "image", 3
    for layer, channels in enumerate(CHANNELS):
        x = quantize(out, x, 4 / 255 if layer else 1 / 255)
        scale = np.full(channels, (6 / (9 * inputs)) ** 0.5 / 127, np.float32)
        stored = rng.integers(-127, 128, (channels, inputs, 3, 3)).astype(np.int8)
        parts = {"weight": stored, "scale": scale, "zero": np.zeros(channels, np.int8)}
        names = [out.constant(f"conv{layer}/{name}", value) for name, value in parts.items()]
        weight = out.add("DequantizeLinear", names, f"conv{layer}/weights", axis=0)
        bias = out.constant(f"conv{layer}/bias", rng.uniform(-0.1, 0.1, channels).astype("f4"))
        conv = out.add("Conv", [x, weight, bias], f"conv{layer}", pads=[1] * 4)
        x, inputs = out.add("Relu", [conv], f"relu{layer}"), channels
    out.add("GlobalAveragePool", [x], "pooled")
    out.save(path, {"image": [1, 3, 32, 32]}, {"pooled": [1, inputs, 1, 1]}, opset=13)
