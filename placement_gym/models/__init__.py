"""Models: built-in ones with seeded random weights, files OpenVINO reads, or ``ov.Model``."""

from placement_gym.models.loading import (
    BUILT_IN,
    ModelNotFoundError,
    load,
    prepare,
)
from placement_gym.models.shapes import UnsupportedModelError

__all__ = ["BUILT_IN", "ModelNotFoundError", "UnsupportedModelError", "load", "prepare"]
