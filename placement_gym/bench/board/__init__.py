"""Leader boards: rows on a fixed set of problems, replayed, as one page."""
