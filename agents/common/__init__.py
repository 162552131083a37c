"""Shared by learned agents: graph batches, per-unit policies, REINFORCE, callbacks.

``REINFORCE`` is imported when it is first used: agents that do not learn need no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.common.reinforce import REINFORCE

__all__ = ["REINFORCE"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from agents.common import reinforce

        return getattr(reinforce, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
