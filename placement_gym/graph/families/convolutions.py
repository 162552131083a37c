"""Convolutional networks: branching, U-shaped and dense ones for images, WaveNet for audio."""

from __future__ import annotations

from math import prod

import numpy as np

from placement_gym.graph import GraphBuilder, OpGraph

PIXELS = (64, 128, 224, 299)
CHANNELS = (32, 48, 64, 96)
MAX_CHANNELS = 1024
CLASSES = 1000
GROWTHS = (16, 24, 32)
MAX_READ = 24
"""Maximum number of layers that a layer of a dense block reads, as in the largest DenseNets."""
AUDIO_CHANNELS = (64, 128, 256)
SAMPLES = (2_000, 8_000, 16_000)
AUDIO_LAYER = 8
"""Operators of a layer."""


def branching(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """Build modules of parallel branches of one to three convolutions, as in Inception."""
    b, channels = GraphBuilder(), int(rng.choice(CHANNELS))
    every = max(n // 40, 1) + int(rng.integers(1, 3))
    x = b.convolution(start(b, rng), channels, 7, stride=2)
    modules = 0
    while len(b) < n - 2:
        modules += 1
        if modules % every == 0:
            channels = min(2 * channels, MAX_CHANNELS)
            x = pool(b, x)
        x = join_branches(b, x, channels, rng)
    classify(b, x)
    return b.graph(name)


def densely_connected(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """Build blocks whose layers read all earlier ones (DenseNet, Huang et al. 2017)."""
    b, growth = GraphBuilder(), int(rng.choice(GROWTHS))
    x = pool(b, b.convolution(start(b, rng), 2 * growth, 7, stride=2))
    layers = max((n - 6) // 3, 1)
    blocks = min(4, max(layers // 4, 1))
    for block, deep in enumerate(np.diff(np.linspace(0, layers, blocks + 1).round()).astype(int)):
        x = pool(b, b.convolution(x, b.shapes[x][1] // 2, 1)) if block else x
        read = [x]
        for _ in range(deep):
            joined = b.concat(read[-MAX_READ:]) if len(read) > 1 else x
            read.append(b.convolution(b.convolution(joined, 4 * growth, 1), growth, 3))
        x = b.concat(read[-MAX_READ:])
    classify(b, x)
    return b.graph(name)


def join_branches(b: GraphBuilder, x: int, channels: int, rng: np.random.Generator) -> int:
    """Add two to five parallel branches, and sometimes one that only pools."""
    ends = []
    for _ in range(rng.integers(2, 6)):
        end = b.convolution(x, max(channels // 2, 8), 1)
        for _ in range(rng.integers(0, 3)):
            end = b.convolution(end, channels, int(rng.choice((1, 3, 3, 5))))
        ends.append(end)
    if rng.random() < 0.5:
        ends.append(b.convolution(b.vector("AvgPool", x), channels, 1))
    joined = b.concat(ends)
    return b.convolution(joined, channels, 1) if rng.random() < 0.5 else joined


def u_shaped(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """Build an encoder and a decoder of convolutions with skip connections."""
    b, channels = GraphBuilder(), int(rng.choice(CHANNELS))
    levels = int(rng.integers(2, 3 + (n >= 40) + (n >= 80)))
    deep = np.diff(np.linspace(0, n - 2 - 3 * levels, 2 * levels + 2).round()).astype(int)
    x, skips = start(b, rng), []
    for level in range(levels):
        x = stack(b, x, channels << level, int(deep[level]), rng)
        skips.append(x)
        x = pool(b, x)
    x = stack(b, x, channels << levels, int(deep[levels]), rng)
    for level in reversed(range(levels)):
        x = b.concat([enlarge(b, x, b.shapes[skips[level]]), skips[level]])
        x = stack(b, x, channels << level, int(deep[2 * levels - level]), rng)
    b.convolution(x, 3, 1)
    return b.graph(name)


def stack(b: GraphBuilder, x: int, channels: int, deep: int, rng: np.random.Generator) -> int:
    """Add a chain of convolutions with residual sums."""
    before = x
    for i in range(deep):
        if i % 4 == 3 and b.shapes[before] == b.shapes[x]:
            x = b.vector("Add", x, before)
        else:
            before, x = x, b.convolution(x, channels, int(rng.choice((1, 3, 3))))
    return x


def enlarge(b: GraphBuilder, x: int, like: tuple[int, ...]) -> int:
    """Interpolate to the height and width of a shape."""
    return b.add("Interpolate", (1, b.shapes[x][1], *like[2:]), (x,))


def start(b: GraphBuilder, rng: np.random.Generator) -> int:
    pixels = int(rng.choice(PIXELS))
    return b.add("Multiply", (1, 3, pixels, pixels))


def pool(b: GraphBuilder, x: int) -> int:
    """Halve height and width."""
    _, channels, height, width = b.shapes[x]
    return b.add("MaxPool", (1, channels, max(height // 2, 1), max(width // 2, 1)), (x,))


def classify(b: GraphBuilder, x: int) -> None:
    channels = b.shapes[x][1]
    b.matmul(b.add("ReduceMean", (1, 1, channels), (x,), float(prod(b.shapes[x]))), CLASSES)


def dilated(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """Build WaveNet (van den Oord et al. 2016) of about n operators."""
    b, channels = GraphBuilder(), int(rng.choice(AUDIO_CHANNELS))
    x = b.add("Gather", (1, channels, 1, int(rng.choice(SAMPLES))), weights=256 * channels)
    total = -1
    for _ in range(max(round((n - 5) / AUDIO_LAYER), 1)):
        filtered, gate = convolve_samples(b, x, channels), convolve_samples(b, x, channels)
        gated = b.add(
            "Multiply", b.shapes[x], (b.vector("Tanh", filtered), b.vector("Sigmoid", gate))
        )
        skip = b.convolution(gated, channels, 1)
        total = skip if total < 0 else b.vector("Add", total, skip)
        x = b.vector("Add", b.convolution(gated, channels, 1), x)
    b.convolution(b.vector("Relu", b.convolution(b.vector("Relu", total), channels, 1)), 256, 1)
    return b.graph(name)


def convolve_samples(b: GraphBuilder, x: int, channels: int) -> int:
    """Convolve two samples along time."""
    weights = 2 * channels * channels
    return b.add("Convolution", b.shapes[x], (x,), 2.0 * weights * b.shapes[x][3], weights)
