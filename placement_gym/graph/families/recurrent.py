"""Recurrent networks unrolled over time, with an embedding and a projection for each step."""

from __future__ import annotations

import numpy as np

from placement_gym.graph.families.builder import GraphBuilder
from placement_gym.graph.operators import OpGraph

LAYERS = (1, 2, 4, 8)
HIDDEN = (256, 512, 1024, 2048)
BATCHES = (1, 8, 32, 64)
VOCABULARY = 10_000


def recurrent(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """A grid of LSTM cells: each reads its previous step and the layer below.

    The steps of a layer hold an equal share of its weights each.
    """
    b = GraphBuilder()
    layers = int(rng.choice([count for count in LAYERS if 3 * (count + 2) <= n]))
    hidden, batch = int(rng.choice(HIDDEN)), int(rng.choice(BATCHES))
    steps = round(n / (layers + 2))
    cell, flops = 8 * hidden * hidden // steps, 16.0 * hidden * hidden * batch
    words, shape = VOCABULARY * hidden // steps, (batch, hidden)
    before: list[int] = []
    for _ in range(steps):
        below, now = b.add("Gather", shape, weights=words), []
        for layer in range(layers):
            inputs = (below, *before[layer : layer + 1])
            below = b.add("LSTMCell", shape, inputs, flops, cell)
            now.append(below)
        projection = 2.0 * batch * hidden * VOCABULARY
        b.add("MatMul", (batch, VOCABULARY), (below,), projection, words)
        before = now
    return b.graph(name)
