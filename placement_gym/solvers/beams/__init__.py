"""Bounds and placements of list schedules by beams of partial placements."""
