"""Compiled kernels: one file per schedule, and what is counted of a placement."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
