"""Solvers: pure functions from a problem and its costs to placements and bounds.

What ``__all__`` names is public, and so are ``search.search`` and ``repair.repair``, which have the
names of their modules; all else, kernels above all, may change. Names are imported when they are
first used.
"""

import lazy_loader

from placement_gym.base import explain_on_import

find_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = explain_on_import(__name__, find_lazily)
