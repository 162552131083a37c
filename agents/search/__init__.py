"""Searches without a network: hill climbing, annealing and ``solvers.search``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
