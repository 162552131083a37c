"""Transformers with a branch for each head, and mixtures of experts."""

from __future__ import annotations

import numpy as np

from placement_gym.graph import GraphBuilder, OpGraph

WIDTHS = (256, 384, 512, 768, 1024)
TOKENS = (16, 64, 128, 256, 512)
HEADS = (1, 2, 4, 8)
HEAD_OPERATORS, BLOCK_OPERATORS = 6, 9
TOLERANCE = 0.15
EXPERTS = (4, 6, 8, 12)
VOCABULARY = 30_000


def attention(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """Build transformer blocks in which each head is a separate branch."""
    b, width, tokens = GraphBuilder(), int(rng.choice(WIDTHS)), int(rng.choice(TOKENS))
    heads = draw_heads(n, rng)
    x = embed(b, tokens, width)
    for _ in range(count_blocks(n, heads)):
        x = feed_forward(b, attend(b, x, heads))
    b.matmul(x, 1000, rows=1)
    return b.graph(name)


def count_blocks(n: int, heads: int) -> int:
    return max(round((n - 2) / (BLOCK_OPERATORS + HEAD_OPERATORS * heads)), 1)


def draw_heads(n: int, rng: np.random.Generator) -> int:
    """Draw a number of heads for which whole blocks have about n operators."""
    sizes = [2 + count_blocks(n, h) * (BLOCK_OPERATORS + HEAD_OPERATORS * h) for h in HEADS]
    away = np.abs(np.array(sizes) - n)
    near = np.flatnonzero(away <= max(TOLERANCE * n, away.min()))
    return HEADS[int(rng.choice(near))]


def embed(b: GraphBuilder, tokens: int, width: int) -> int:
    return b.add("Gather", (1, tokens, width), weights=VOCABULARY * width)


def attend(b: GraphBuilder, x: int, heads: int) -> int:
    """Add self-attention to x of (1, tokens, width), with a residual sum."""
    _, tokens, width = b.shapes[x]
    normal, part = b.vector("MVN", x), width // heads
    contexts = []
    for _ in range(heads):
        query, key, value = (b.matmul(normal, part) for _ in range(3))
        scores = b.vector("Softmax", b.product(query, key, (1, tokens, tokens), part))
        contexts.append(b.product(scores, value, (1, tokens, part), tokens))
    joined = b.add("Concat", (1, tokens, width), contexts, 0.0)
    return b.vector("Add", b.matmul(joined, width), x)


def feed_forward(b: GraphBuilder, x: int) -> int:
    """Add two dense layers with a residual sum."""
    width = b.shapes[x][-1]
    hidden = b.vector("Gelu", b.matmul(b.vector("MVN", x), 4 * width))
    return b.vector("Add", b.matmul(hidden, width), x)


def experts(name: str, n: int, rng: np.random.Generator) -> OpGraph:
    """Build blocks of attention and of experts, to which a router assigns tokens."""
    b, width, tokens = GraphBuilder(), int(rng.choice(WIDTHS)), int(rng.choice(TOKENS))
    many = int(rng.choice([count for count in EXPERTS if 3 * count <= n]))
    x = embed(b, tokens, width)
    while len(b) < n - 1 - 3 * many // 2:
        x = mix_experts(b, attend_at_once(b, x), many)
    b.matmul(x, 1000, rows=1)
    return b.graph(name)


def attend_at_once(b: GraphBuilder, x: int) -> int:
    """Add self-attention as one operator, with a residual sum."""
    _, tokens, width = b.shapes[x]
    read = b.matmul(b.vector("MVN", x), 3 * width)
    flops = 4.0 * tokens * tokens * width
    mixed = b.add("ScaledDotProductAttention", b.shapes[x], (read,), flops)
    return b.vector("Add", b.matmul(mixed, width), x)


def mix_experts(b: GraphBuilder, x: int, many: int) -> int:
    """Add experts that take two of ``many`` shares of the tokens each, with a residual sum."""
    _, tokens, width = b.shapes[x]
    router = b.vector("Softmax", b.matmul(x, many))
    rows = max(2 * tokens // many, 1)
    answers = []
    for _ in range(many):
        chosen = b.add("Gather", (1, rows, width), (x, router))
        answers.append(b.matmul(b.vector("Gelu", b.matmul(chosen, 4 * width)), width))
    return b.add("ScatterUpdate", b.shapes[x], (x, *answers))
