"""Tables of single graphs: terms of their logits for runs of all sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

FOLLOWING_STEP = 0.5
"""Learning rate of the logits of following relative to those of devices. Hand-tuned: the best on
the validation problems."""
TABLE_STEP = 100.0
"""Steps of tables, relative to those of weights."""


class RunTable(nn.Module):
    """Values of units: each is the sum of the values of all runs that contain the unit.

    Runs have 1, 2, 4, ... units in topological order, and again shifted by half a run. The gradient
    moves many units together by long runs, and single ones by short runs. All values start at zero.

    Args:
        n_units: Number of units, padding included.
        width: Values of a unit.
        step: Factor of the learning rate.
    """

    index: Tensor

    def __init__(self, n_units: int, width: int, step: float = 1.0) -> None:
        super().__init__()
        self.step = step
        units, n_values, size = torch.arange(n_units), 0, 1
        levels: list[Tensor] = []
        while size < 2 * n_units or not levels:
            # without shifted runs, none would span the border between two long ones
            for shift in (0, size // 2) if 1 < size < n_units else (0,):
                run = (units + shift) // size
                levels.append(run + n_values)
                n_values += int(run[-1]) + 1
            size *= 2
        self.register_buffer("index", torch.stack(levels), persistent=False)
        self.values = nn.Parameter(torch.zeros(n_values, width))

    def forward(self) -> Tensor:
        """(n_units, width) values."""
        return self.step * self.values[self.index].sum(dim=0)


class Tables(nn.ModuleDict):
    """Terms of the logits of known graphs, see ``RunTable``."""

    def __init__(self, graphs: Iterable[int], n_units: int, n_devices: int) -> None:
        super().__init__()
        for graph_id in graphs:
            own = RunTable(n_units, n_devices, TABLE_STEP)
            keep = RunTable(n_units, 1, TABLE_STEP * FOLLOWING_STEP)
            self[str(graph_id)] = nn.ModuleDict({"own": own, "keep": keep})

    def correct(self, logits: Tensor, ids: Sequence[int], name: str = "own") -> Tensor:
        """Add the tables' values to (G, N, F) logits, of devices or (``"keep"``) of following."""
        if not len(self):
            return logits
        each = [
            logit + self.get_submodule(f"{graph_id}.{name}")() if str(graph_id) in self else logit
            for graph_id, logit in zip(ids, logits, strict=True)
        ]
        return torch.stack(each)
