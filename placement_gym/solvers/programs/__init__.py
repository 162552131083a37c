"""Bounds and placements of overlapping schedules and pipelines by linear programs."""
