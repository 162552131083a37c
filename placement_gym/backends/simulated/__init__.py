"""The simulated backend: deterministic latencies from a cost table."""
