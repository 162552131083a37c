"""Device placement of neural networks as a Gymnasium environment, measured with OpenVINO.

What ``__all__`` names is public, here and in ``placement_gym.solvers``; so are the modules
``observation``, ``online.rules`` and ``rewards`` of ``envs``. Names are imported when they are
first used, so that ``import placement_gym`` stays quick; it registers the environments.
"""

from typing import Any

import lazy_loader

from envs_registry import register_envs
from placement_gym.base import explain_removal
from placement_gym.version import VERSION

__version__ = VERSION
find_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if removal := explain_removal("name", name):  # an AttributeError says nothing on import
        raise ImportError(f"placement_gym: {removal}")
    return find_lazily(name)


register_envs()
