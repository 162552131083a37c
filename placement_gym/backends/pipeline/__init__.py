"""Pipelines: the stages of a placement, each compiled on its device, at work at the same time."""
