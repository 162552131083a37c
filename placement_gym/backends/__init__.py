"""Backends: what a placement costs, measured or simulated."""
