"""The workload of one evaluation: the inferences of a request, and the order of requests."""
