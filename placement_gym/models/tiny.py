"""Toy model whose best placement on the simulated ``cpu+dgpu`` uses both devices."""

from __future__ import annotations

import openvino as ov
from openvino import opset13 as ops

from placement_gym.models.builder import Builder


def build(compressed: bool = False) -> ov.Model:
    """Build thirteen operators: convolutions suit an accelerator, vector operators do not."""
    b = Builder(seed=13, compressed=compressed)
    image = b.parameter("image", (1, 3, 64, 64))
    stem = b.relu("stem/relu", b.conv_bn("stem", image, 64, 3, padding=1))
    left = b.conv_bn("left", stem, 64, 3, padding=1, gain=1.0)
    right = b.conv_bn("right", stem, 64, 5, padding=2, gain=1.0)
    body = b.name(ops.add(left, right), "body/sum")
    axes = b.constant("pool/axes", [2, 3])
    pooled = b.name(ops.reduce_mean(body, axes, keep_dims=True), "pool")
    gate = b.name(ops.sigmoid(pooled), "gate")
    value = b.name(ops.tanh(pooled), "value")
    gated = b.name(ops.multiply(gate, value), "gated")
    scores = b.name(ops.softmax(gated, 1), "scores")
    return b.model("tiny", {"probabilities": scores}, [image])
