"""Errors, arrays, files, texts, kernels, child processes and schemas, which all rooms use."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
