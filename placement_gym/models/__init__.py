"""Models: built-in ones with seeded random weights, files OpenVINO reads, or ``ov.Model``."""

from placement_gym.models.loading import BUILT_IN, ModelNotFoundError, load, prepare
from placement_gym.models.shapes import UnsupportedModelError
from placement_gym.models.shared_constants import separate_constants

__all__ = [
    "BUILT_IN",
    "ModelNotFoundError",
    "UnsupportedModelError",
    "load",
    "prepare",
    "separate_constants",
]
