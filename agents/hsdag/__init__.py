"""HSDAG: a policy that learns which units to place together, and where (NeurIPS 2024)."""

from agents.hsdag.policy import HSDAGPolicy

__all__ = ["HSDAGPolicy"]
