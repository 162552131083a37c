"""Honest comparisons of agents."""
