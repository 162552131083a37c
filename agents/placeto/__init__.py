"""Placeto: places one unit after another, with a reward at each step (NeurIPS 2019)."""

from agents.placeto.policy import PlacetoOptions, PlacetoPolicy

__all__ = ["PlacetoOptions", "PlacetoPolicy"]
