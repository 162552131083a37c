"""Recurrent networks unrolled over time: a grid of cells, and GNMT."""

from __future__ import annotations

import numpy as np

from placement_gym.graph import GraphBuilder, OpGraph

LAYERS = (1, 2, 4, 8)
HIDDEN = (256, 512, 1024, 2048)
BATCHES = (1, 8, 32, 64)
VOCABULARY = 10_000
GNMT_HIDDEN = (256, 512, 1024)
GNMT_BATCHES = (8, 32, 64)
GNMT_LAYERS = (2, 4, 8)
GNMT_VOCABULARY = 32_000
CELL_OPERATORS, STEP_OPERATORS = 8, 8
"""Operators of a cell of GNMT, and of a step outside its cells."""
MIN_STEPS = 4

State = tuple[int, int]
"""Output and memory of a cell."""


def recurrent(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """Build a grid of LSTM cells, which read their previous step and the layer below.

    Each step holds an equal share of a layer's weights.
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


def translation(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """Build GNMT (Wu et al. 2016) of about n operators.

    The encoder's first layer is bidirectional, layers from the third on have residual sums, and
    each step of the decoder attends to all outputs of the encoder. Each step holds an equal share
    of a layer's weights.
    """
    fitting = [count for count in GNMT_LAYERS if MIN_STEPS * count_step(count) <= n]
    layers = int(rng.choice(fitting)) if fitting else 1
    steps = max(round(n / count_step(layers)), 1)
    b = Translator(int(rng.choice(GNMT_HIDDEN)), int(rng.choice(GNMT_BATCHES)), layers, steps)
    encoded = b.encode()
    b.decode(encoded)
    return b.graph(name)


def count_step(layers: int) -> int:
    return (2 * layers + 1) * CELL_OPERATORS + 2 * max(layers - 2, 0) + STEP_OPERATORS


class Translator(GraphBuilder):
    """Builder of encoder and decoder with ``layers`` layers each."""

    def __init__(self, hidden: int, batch: int, layers: int, steps: int) -> None:
        super().__init__()
        self.hidden, self.layers, self.steps = hidden, layers, steps
        self.row, self.batch = (batch, hidden), batch

    def encode(self) -> int:
        """Add the encoder; return the outputs of all steps."""
        words = [self.embed() for _ in range(self.steps)]
        backward: list[int] = []
        state: State | None = None
        for word in reversed(words):
            state = self.cell(word, state)
            backward.append(state[0])
        states: list[State | None] = [None] * self.layers
        answers = []
        for word, later in zip(words, reversed(backward), strict=True):
            states[0] = state = self.cell(word, states[0])
            x = self.vector("Add", state[0], later)
            answers.append(self.climb(x, states))
        shape = (self.steps, *self.row)
        return self.add("Concat", shape, answers, 0.0)

    def decode(self, encoded: int) -> None:
        """Add the decoder and the scores of words."""
        states: list[State | None] = [None] * self.layers
        for _ in range(self.steps):
            states[0] = state = self.cell(self.embed(), states[0])
            x = self.climb(self.attend(state[0], encoded), states)
            flops = 2.0 * self.batch * self.hidden * GNMT_VOCABULARY
            weights = GNMT_VOCABULARY * self.hidden // self.steps
            self.add("MatMul", (self.batch, GNMT_VOCABULARY), (x,), flops, weights)

    def climb(self, x: int, states: list[State | None]) -> int:
        """Add the layers above the first; replace ``states``."""
        for layer in range(1, self.layers):
            states[layer] = state = self.cell(x, states[layer])
            x = self.vector("Add", state[0], x) if layer > 1 else state[0]
        return x

    def embed(self) -> int:
        return self.add("Gather", self.row, weights=GNMT_VOCABULARY * self.hidden // self.steps)

    def cell(self, x: int, before: State | None) -> State:
        width = 4 * self.hidden
        flops, weights = 4.0 * self.batch * self.hidden * width, 2 * self.hidden * width
        inputs = (x,) if before is None else (x, before[0])
        gates = self.add("MatMul", (self.batch, width), inputs, flops, weights // self.steps)
        opened = self.add("Sigmoid", (self.batch, 3 * self.hidden), (gates,))
        value = self.add("Tanh", self.row, (gates,))
        factors = (opened,) if before is None else (opened, before[1])
        forgotten = self.add("Multiply", self.row, factors)
        written = self.add("Multiply", self.row, (opened, value))
        memory = self.vector("Add", forgotten, written)
        return self.vector("Multiply", self.vector("Tanh", memory), opened), memory

    def attend(self, query: int, encoded: int) -> int:
        """Add attention to the encoder's outputs, and the query."""
        scores = self.product(query, encoded, (self.steps, self.batch, 1), self.hidden)
        shares = self.vector("Softmax", scores)
        return self.vector("Add", self.product(shares, encoded, self.row, self.steps), query)
