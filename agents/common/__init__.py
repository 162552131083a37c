"""Shared by learned agents: graph batches, per-unit policies, REINFORCE, callbacks.

What ``HOMES`` lists is imported when it is first used: agents that do not learn need no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.common.graph_data import to_data
    from agents.common.reinforce import REINFORCE

__all__ = ["REINFORCE", "to_data"]
HOMES = {
    "REINFORCE": "agents.common.reinforce",
    "to_data": "agents.common.graph_data",
}


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
