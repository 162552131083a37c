"""Compiled kernels: one file per schedule, and what is counted of a placement."""
