"""Plain REINFORCE on tables of logits: what every learned agent is compared with."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
