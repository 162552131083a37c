"""Shared by learned agents: graph batches, per-unit policies, REINFORCE, callbacks.

What ``SOURCES`` lists is imported when first used: agents that do not learn need no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.base.lazy import export_lazily

if TYPE_CHECKING:
    from agents.common.pyg import read_data as read_data
    from agents.common.pyg import to_data as to_data
    from agents.common.reinforce import REINFORCE as REINFORCE

SOURCES = {"REINFORCE": "reinforce", "read_data": "pyg", "to_data": "pyg"}
__all__, __getattr__, __dir__ = export_lazily(__name__, SOURCES)
