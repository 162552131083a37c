"""Families of generated graphs, and problems of the train, validation and test splits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
