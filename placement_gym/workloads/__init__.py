"""What one evaluation runs: the inferences of a request, and how requests follow each other."""
