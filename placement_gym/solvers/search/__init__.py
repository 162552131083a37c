"""One search for placements, under any schedule and any budget."""
