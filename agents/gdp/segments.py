"""Segment-recurrent attention: Transformer-XL over the units in topological order (GO, 2.3)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from agents.gdp.modulation import Modulated

WIDENING = 2
"""Width of the layer between attentions, in widths of an embedding."""
TOGETHER = 16
"""Segments that a layer computes at once, whose activations fit in a processor's cache."""


class Attention(nn.Module):
    """One layer: a segment attends to itself and to the units before, then a dense part.

    Args:
        width: Width of embeddings, a multiple of ``heads``.
        heads: Number of heads.
        context: Width of the embedding of the graph.
    """

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Modulated(width, width, context)
        self.pair = Modulated(width, 2 * width, context)
        self.out = Modulated(width, width, context)
        self.inner = Modulated(width, WIDENING * width, context)
        self.outer = Modulated(WIDENING * width, width, context)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor, before: Tensor, context: Tensor, segments: int = 1) -> Tensor:
        """(..., k * s, width) from the units of k segments of s.

        Args:
            x: The units.
            before: (..., m, width) units before them. A segment reads itself and the m units before
                it, without gradient there.
            context: (context,) embedding of the graph.
            segments: Number of segments, k.
        """
        size = x.shape[-2] // segments
        key, value = self.read(x, before, context, size).chunk(2, dim=-1)
        query = self.query(x, context).reshape(*x.shape[:-2], segments, size, -1)
        read = scaled_dot_product_attention(self.split(query), self.split(key), self.split(value))
        together = read.transpose(1, 2).reshape(x.shape)
        x = self.norms[0](x + self.out(together, context))
        normed: Tensor = self.norms[1](x + self.outer(self.inner(x, context).relu(), context))
        return normed

    def read(self, x: Tensor, before: Tensor, context: Tensor, size: int) -> Tensor:
        """(..., k, m + size, 2 * width) keys and values that each of k segments reads."""
        memory = before.shape[-2]
        rows = torch.cat([before, x], dim=-2)
        weight, bias = self.pair.fold(context)
        pairs = linear(rows, weight, bias)
        earlier = rows[..., :-size, :].detach(), pairs[..., :-size, :].detach()
        kept: Tensor = Remembered.apply(*earlier, weight, bias)  # type: ignore[no-untyped-call]
        windows = kept.unfold(-2, memory, size).transpose(-1, -2)
        own = pairs[..., memory:, :].reshape(*windows.shape[:-2], size, -1)
        return torch.cat([windows, own], dim=-2)

    def split(self, x: Tensor) -> Tensor:
        """(B, heads, s, width / heads) from (..., s, width)."""
        return x.reshape(-1, x.shape[-2], self.heads, x.shape[-1] // self.heads).transpose(1, 2)


class Remembered(Function):
    """What a dense layer has already computed, with a gradient for its weights alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, done: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """``done``, which is x @ weight.T + bias."""
        ctx.save_for_backward(x)
        return done.view_as(done)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor, Tensor]:
        """Gradients of the weight and the bias."""
        (x,) = ctx.saved_tensors
        grad = grads[0].flatten(0, -2)
        return None, None, grad.T @ x.flatten(0, -2), grad.sum(dim=0)


class Segments(nn.Module):
    """Layers of attention over segments of a sequence of any length, without positions.

    Every layer of a segment reads that segment and what the same layer read of the ``memory``
    units before it, without a gradient there. So the segments of a layer need not wait for each
    other, and ``TOGETHER`` of them are computed at once.

    Args:
        width: See ``Attention``; also that of the embedding of the graph.
        heads: See ``Attention``.
        layers: Number of layers.
        segment: Units of a segment.
        memory: Units before it that are read, at least one.
        recompute: Whether the activations of ``TOGETHER`` segments are kept at a time: the backward
            pass computes those of the others again.
    """

    def __init__(
        self, width: int, heads: int, layers: int, segment: int, memory: int, recompute: bool
    ) -> None:
        super().__init__()
        self.segment, self.memory, self.recompute = segment, memory, recompute
        self.layers = nn.ModuleList(Attention(width, heads, width) for _ in range(layers))

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """(..., n, width) from (..., n, width) units of one graph in topological order."""
        counts = self.count_together(x.shape[-2])
        again = self.recompute and len(counts) > 1 and torch.is_grad_enabled()
        for layer in self.layers:
            run = partial(checkpoint, layer, use_reentrant=False, preserve_rng_state=False)
            x = self.apply_layer(run if again else layer, x, context, counts)
        return x

    def apply_layer(self, run: Any, x: Tensor, context: Tensor, counts: list[int]) -> Tensor:
        """(..., n, width) from (..., n, width), some segments at a time."""
        known, first, done = x.detach(), 0, []
        sizes = [count * self.segment for count in counts[:-1]]
        parts = torch.split(x, [*sizes, x.shape[-2] - sum(sizes)], dim=-2)
        for part, count in zip(parts, counts, strict=True):
            before = known[..., max(first - self.memory, 0) : first, :]
            done.append(run(part, before, context, count))
            first += part.shape[-2]
        return torch.cat(done, dim=-2)

    def count_together(self, n: int) -> list[int]:
        """How many segments of n units are computed at once, from the first one on.

        Segments are together if they are of one size and have a whole memory before them.
        """
        whole, rest = divmod(n, self.segment)
        early = min(-(-self.memory // self.segment), whole)
        full, left = divmod(whole - early, TOGETHER)
        return [1] * early + [TOGETHER] * full + [left] * (left > 0) + [1] * (rest > 0)
