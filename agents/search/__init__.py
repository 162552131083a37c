"""Search without a network: search, hill climbing, annealing."""
