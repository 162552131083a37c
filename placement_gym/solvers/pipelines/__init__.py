"""Pipelines: the best contiguous split, exactly and along one order."""
