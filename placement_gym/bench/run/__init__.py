"""One run: an environment, an agent, a budget, a finalist, a result row."""
