"""Feature modulation: one network for graphs that differ (superposition, Cheung et al. 2019)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import linear


class Modulated(nn.Module):
    """A dense layer whose input is multiplied by a vector that the whole graph determines.

    Args:
        width: Width of the input.
        out: Width of the output.
        context: Width of the embedding of the graph.
    """

    def __init__(self, width: int, out: int, context: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, out)
        self.gate = nn.Linear(context, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """(..., out) from (..., width) inputs and the (context,) embedding of their graph."""
        return linear(x, *self.fold(context))

    def fold(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """(out, width) weight and (out,) bias of the dense layer, the vector multiplied in."""
        return self.dense.weight * (1.0 + self.gate(context).tanh()), self.dense.bias
