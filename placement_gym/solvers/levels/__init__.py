"""The multilevel placer: coarsen, place, refine."""
