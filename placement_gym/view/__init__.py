"""One self-contained page that shows placements of a model."""
