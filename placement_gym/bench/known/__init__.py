"""Best known latencies of problems, kept with the package, which scores are relative to."""
