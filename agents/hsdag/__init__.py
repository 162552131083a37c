"""HSDAG: a policy that learns which units to place together, and where (NeurIPS 2024)."""

from agents.hsdag.policy import HSDAGPolicy
from agents.hsdag.presets import HSDAGOptions

__all__ = ["HSDAGOptions", "HSDAGPolicy"]
