"""HSDAG: a policy that learns which units to place together, and where (NeurIPS 2024)."""

from agents.hsdag.networks import HSDAGOptions
from agents.hsdag.policy import HSDAGPolicy

__all__ = ["HSDAGOptions", "HSDAGPolicy"]
