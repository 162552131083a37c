"""Placeto: one unit after another, each step scored."""

from agents.placeto.policy import PlacetoPolicy

__all__ = ["PlacetoPolicy"]
