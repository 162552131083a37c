"""Segment-recurrent attention: Transformer-XL over the units in topological order (GO, 2.3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from agents.gdp.modulation import Modulated

WIDENING = 2
"""Width of the layer between attentions, in widths of an embedding."""


class Attention(nn.Module):
    """One layer: a segment attends to itself and to the segment before, then a dense part.

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

    def forward(self, x: Tensor, memory: Tensor, context: Tensor) -> Tensor:
        """(..., s, width) from a segment of (..., s, width) units.

        Args:
            x: The units.
            memory: (..., m, width) what this layer read of the units before.
            context: (context,) embedding of the graph.
        """
        key, value = self.pair(torch.cat([memory, x], dim=-2), context).chunk(2, dim=-1)
        query = self.query(x, context)
        read = scaled_dot_product_attention(self.split(query), self.split(key), self.split(value))
        together = read.transpose(1, 2).reshape(x.shape)
        x = self.norms[0](x + self.out(together, context))
        normed: Tensor = self.norms[1](x + self.outer(self.inner(x, context).relu(), context))
        return normed

    def split(self, x: Tensor) -> Tensor:
        """(B, heads, s, width / heads) from (..., s, width)."""
        return x.reshape(-1, x.shape[-2], self.heads, x.shape[-1] // self.heads).transpose(1, 2)


class Segments(nn.Module):
    """Layers of attention over segments of a sequence of any length, without positions.

    Every layer of a segment reads that segment and what the same layer read of the ``memory``
    units before it, without a gradient there.

    Args:
        width: See ``Attention``; also that of the embedding of the graph.
        heads: See ``Attention``.
        layers: Number of layers.
        segment: Units of a segment.
        memory: Units before it that are read, at least one.
        recompute: Whether the activations of one segment are kept at a time: the backward pass
            computes those of the others again.
    """

    def __init__(
        self, width: int, heads: int, layers: int, segment: int, memory: int, recompute: bool
    ) -> None:
        super().__init__()
        self.segment, self.memory, self.recompute = segment, memory, recompute
        self.layers = nn.ModuleList(Attention(width, heads, width) for _ in range(layers))

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """(..., n, width) from (..., n, width) units of one graph in topological order."""
        read = [x[..., :0, :] for _ in self.layers]
        done = []
        again = self.recompute and x.shape[-2] > self.segment and torch.is_grad_enabled()
        run = self.run_again if again else self.run
        for part in torch.split(x, self.segment, dim=-2):
            answer, now = run(part, read, context)
            read = [
                torch.cat([before, latest], dim=-2)[..., -self.memory :, :]
                for before, latest in zip(read, now, strict=True)
            ]
            done.append(answer)
        return torch.cat(done, dim=-2)

    def run_again(
        self, x: Tensor, memories: Sequence[Tensor], context: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """As ``run``, but its activations are not kept for the backward pass."""
        done: tuple[Tensor, list[Tensor]] = checkpoint(
            self.run, x, memories, context, use_reentrant=False, preserve_rng_state=False
        )
        return done

    def run(
        self, x: Tensor, memories: Sequence[Tensor], context: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """One segment through all layers; returns what each layer read, without gradient."""
        read = []
        for layer, memory in zip(self.layers, memories, strict=True):
            read.append(x.detach())
            x = layer(x, memory, context)
        return x, read
