"""Shared by learned agents: graph batches, per-unit policies, REINFORCE, callbacks."""

from agents.common.reinforce import REINFORCE

__all__ = ["REINFORCE"]
