"""Child processes over pipes: requests, signs of life, deadlines, and an end with the parent."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
