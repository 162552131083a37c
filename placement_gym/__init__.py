"""Device placement of neural networks as a Gymnasium environment, measured with OpenVINO.

What ``__all__`` names is public, here and in ``placement_gym.solvers``; so are the modules
``observation``, ``online.rules`` and ``rewards`` of ``envs``. Names are imported when they are
first used, which keeps ``import placement_gym`` quick; it registers the environments.
"""

import lazy_loader

from envs_registry import register_envs
from placement_gym.base import explain_on_import
from placement_gym.version import VERSION

__version__ = VERSION
find_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = explain_on_import(__name__, find_lazily)

register_envs()
