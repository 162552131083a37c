"""WaveNet: a stack of gated, dilated convolutions that all add to one sum."""

from __future__ import annotations

import numpy as np

from placement_gym.graph.families.builder import GraphBuilder
from placement_gym.graph.operators import OpGraph

CHANNELS = (64, 128, 256)
SAMPLES = (2_000, 8_000, 16_000)
LAYER = 8
"""Operators of a layer."""


def dilated(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """As many layers of WaveNet (van den Oord et al. 2016) as come near to n operators."""
    b, channels = GraphBuilder(), int(rng.choice(CHANNELS))
    x = b.add("Gather", (1, channels, 1, int(rng.choice(SAMPLES))), weights=256 * channels)
    total = -1
    for _ in range(max(round((n - 5) / LAYER), 1)):
        filtered, gate = convolve(b, x, channels), convolve(b, x, channels)
        gated = b.add(
            "Multiply", b.shapes[x], (b.vector("Tanh", filtered), b.vector("Sigmoid", gate))
        )
        skip = b.convolution(gated, channels, 1)
        total = skip if total < 0 else b.vector("Add", total, skip)
        x = b.vector("Add", b.convolution(gated, channels, 1), x)
    b.convolution(b.vector("Relu", b.convolution(b.vector("Relu", total), channels, 1)), 256, 1)
    return b.graph(name)


def convolve(b: GraphBuilder, x: int, channels: int) -> int:
    """A convolution along time that reads two samples."""
    weights = 2 * channels * channels
    return b.add("Convolution", b.shapes[x], (x,), 2.0 * weights * b.shapes[x][3], weights)
