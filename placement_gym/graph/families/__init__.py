"""Generated problems: graphs of ten families, sets of devices with limits, and schedules.

``graph.generated`` builds a graph from a name as ``"family-attention-120-seed7"``; ``problems``
draws whole problems of the train, validation and test splits, from seven of the families.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
