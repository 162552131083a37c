"""Figures of placements, comparisons and simulations."""
