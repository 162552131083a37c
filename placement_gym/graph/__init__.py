"""Models as graphs: operators, units, features, submodels."""
