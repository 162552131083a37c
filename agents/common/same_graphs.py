"""A check that graphs do not change from one observation to the next, as ``VecNormalize`` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from placement_gym.base.errors import UserError

DEVICE_KEYS = ("devices", "links", "unit_ms", "unit_bytes", "edge_attr")
INTEGER_KEYS = ("graph_id", "step", "placement", "current_unit")
SAME = 1e-4
"""Relative difference of norms that rounding may cause."""


class SameGraphs:
    """Checks that a ``graph_id`` always comes with the same graph.

    Policies keep what they compute of a graph under its ``graph_id``, so that a rollout and its
    update would see different ones. What is compared is the norm of each array.

    Args:
        table: ``graph_id`` -> padded arrays, if policies were given one: ``x`` must be that.
    """

    def __init__(self, table: Mapping[int, Mapping[str, Any]] | None) -> None:
        self.norms = {
            (graph_id, "x"): compute_norm(torch.as_tensor(arrays["x"]))
            for graph_id, arrays in (table or {}).items()
        }

    def check(self, observation: Mapping[str, Tensor], ids: tuple[int, ...], rows: Tensor) -> None:
        """Raise if something of these observations has changed.

        Args:
            observation: (B, ...) arrays.
            ids: (G,) ``graph_id`` of each graph.
            rows: (G,) one observation of each graph.

        Raises:
            UserError: A graph has changed, or a number that identifies something is no integer.
        """
        plain = "node_mask" in observation and not observation["node_mask"].is_floating_point()
        if plain:  # a rollout buffer holds floats alone
            for key in INTEGER_KEYS:
                if key in observation and observation[key].is_floating_point():
                    raise altered(key)
        for key in ("x", *DEVICE_KEYS):
            if key in observation:
                for graph_id, row in zip(ids, rows.tolist(), strict=True):
                    now = compute_norm(observation[key][row])
                    before = self.norms.setdefault((graph_id, key), now)
                    if abs(now - before) > SAME * max(before, now):
                        raise altered(key)


def compute_norm(values: Tensor) -> float:
    """The sum of magnitudes, by which a change shows."""
    return float(torch.linalg.vector_norm(values, 1, dtype=torch.float64))


def altered(key: str) -> UserError:
    """The error for an array that a wrapper changes."""
    return UserError(
        f"{key!r} is not as the environment observes it, or changes from step to step, and "
        "policies keep graphs by their graph_id: normalise rewards alone, "
        "VecNormalize(norm_obs=False); policies scale the features of graphs themselves"
    )
