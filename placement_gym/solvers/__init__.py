"""Solvers: pure functions from a problem and its costs to placements and bounds."""
