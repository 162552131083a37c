"""Solvers: pure functions from a problem and its costs to placements and bounds.

What ``__all__`` names is public, and so are ``search.search`` and ``repair.repair``, which have the
names of their modules; all else, kernels above all, may change. Names are imported when they are
first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
