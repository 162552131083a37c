"""WaveNet (van den Oord et al. 2016): gated, dilated convolutions along time."""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from placement_gym.errors import UserError
from placement_gym.models.builder import Builder, Tensor

SAMPLES, CHANNELS, LEVELS, CYCLE = 4000, 64, 256, 10
MAX_LAYERS = 200


def build(compressed: bool = False, layers: int = 30) -> ov.Model:
    """WaveNet for a quarter of a second, 4000 samples of 8 bits.

    Args:
        compressed: Store weights as float16.
        layers: Dilated layers; dilations double, and begin anew after ten.

    Raises:
        ValueError: ``layers`` is not between 1 and 200.
    """
    if not 1 <= layers <= MAX_LAYERS:
        raise UserError(f"wavenet has 1 to {MAX_LAYERS} layers, not {layers}")
    b = Builder(seed=2016, compressed=compressed)
    samples = b.parameter("samples", (1, SAMPLES), np.int64)
    table = b.weight("embedding/table", b.uniform((LEVELS, CHANNELS), -0.5, 0.5))
    axis = b.constant("embedding/axis", 0)
    embedded = b.name(ops.gather(table, samples, axis), "embedding/gather")
    order = b.constant("embedding/order", [0, 2, 1])
    x: Tensor = b.name(ops.transpose(embedded, order), "embedding/transpose")
    total: Tensor | None = None
    for layer in range(layers):
        name = f"layer{layer}"
        gated = gate(b, name, x, 2 ** (layer % CYCLE))
        skip = convolve(b, f"{name}/skip", gated, CHANNELS, gain=0.5)
        total = skip if total is None else b.name(ops.add(total, skip), f"{name}/total")
        out = convolve(b, f"{name}/out", gated, CHANNELS, gain=0.5)
        x = b.name(ops.add(out, x), f"{name}/sum")
    assert total is not None
    y = convolve(b, "head/inner", b.relu("head/relu1", total), LEVELS)
    logits = convolve(b, "head/outer", b.relu("head/relu2", y), LEVELS)
    return b.model("wavenet", {"logits": logits}, [samples])


def gate(b: Builder, name: str, x: Tensor, dilation: int) -> ov.Node:
    """The product of a filter and its gate."""
    value = ops.tanh(convolve(b, f"{name}/filter", x, CHANNELS, 2, dilation))
    share = ops.sigmoid(convolve(b, f"{name}/gate", x, CHANNELS, 2, dilation))
    parts = b.name(value, f"{name}/tanh"), b.name(share, f"{name}/sigmoid")
    return b.name(ops.multiply(*parts), f"{name}/gated")


def convolve(
    b: Builder,
    name: str,
    x: Tensor,
    channels: int,
    kernel: int = 1,
    dilation: int = 1,
    gain: float = 1.0,
) -> ov.Node:
    """A causal convolution along time, with its bias."""
    inputs, past = x.shape[1], dilation * (kernel - 1)
    weights = b.fan_in((channels, inputs, kernel), inputs * kernel, gain)
    weight = b.weight(f"{name}/weight", weights)
    conv = b.name(ops.convolution(x, weight, [1], [past], [0], [dilation]), f"{name}/conv")
    bias = b.weight(f"{name}/bias", b.uniform((1, channels, 1), -0.1, 0.1))
    return b.name(ops.add(conv, bias), f"{name}/add")
