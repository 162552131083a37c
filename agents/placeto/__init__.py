"""Placeto: places one unit after another, with a reward at each step (NeurIPS 2019)."""

from agents.placeto.policy import PlacetoPolicy

__all__ = ["PlacetoPolicy"]
