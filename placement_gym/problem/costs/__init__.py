"""Cost tables of operators and transfers, their sources, and the semantics of a latency."""
