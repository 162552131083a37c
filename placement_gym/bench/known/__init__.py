"""Best known latencies of problems, kept with the package: the yardstick of every score."""
