"""A table of logits for each graph, which is added to the output of a network for all graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from agents.common.following import FOLLOWING_STEP
from agents.graph_groups.runs import RunTable

TABLE_STEP = 100.0
"""Steps of tables, relative to those of weights."""


class Tables(nn.ModuleDict):
    """Terms of the logits of known graphs, at every resolution, see ``RunTable``; zero at first.

    Args:
        graphs: ``graph_id`` of each graph that gets tables.
        n_units: Number of units, padding included.
        n_devices: Number of devices.
        following: Whether there is one for logits of following a producer, too.
    """

    def __init__(
        self, graphs: Iterable[int], n_units: int, n_devices: int, following: bool = False
    ) -> None:
        super().__init__()
        for graph_id in graphs:
            own = {"own": RunTable(n_units, n_devices, TABLE_STEP)}
            step = TABLE_STEP * FOLLOWING_STEP
            keep = {"keep": RunTable(n_units, 1, step)} if following else {}
            self[str(graph_id)] = nn.ModuleDict(own | keep)

    def correct(self, logits: Tensor, ids: Sequence[int], name: str = "own") -> Tensor:
        """(G, N, F) logits of G graphs with the terms of those that have tables.

        Args:
            logits: (G, N, F), without them.
            ids: ``graph_id`` of each graph.
            name: ``"own"``, of devices, or ``"keep"``, of following.
        """
        if not len(self):
            return logits
        each = [
            logit + self.get_submodule(f"{graph_id}.{name}")() if str(graph_id) in self else logit
            for graph_id, logit in zip(ids, logits, strict=True)
        ]
        return torch.stack(each)
