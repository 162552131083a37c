"""Models: built-in ones with seeded random weights, files OpenVINO reads, or ``ov.Model``."""

from typing import TYPE_CHECKING

from placement_gym.base.lazy import export_lazily

if TYPE_CHECKING:
    from placement_gym.models.built_in import BUILT_IN as BUILT_IN
    from placement_gym.models.loading import ModelNotFoundError as ModelNotFoundError
    from placement_gym.models.loading import load as load
    from placement_gym.models.loading import prepare as prepare
    from placement_gym.models.shapes import UnsupportedModelError as UnsupportedModelError
    from placement_gym.models.shared_constants import separate_constants as separate_constants

SOURCES = {
    "BUILT_IN": "built_in",
    "ModelNotFoundError": "loading",
    "UnsupportedModelError": "shapes",
    "load": "loading",
    "prepare": "loading",
    "separate_constants": "shared_constants",
}
"""Name -> module of the package."""
__all__, __getattr__, __dir__ = export_lazily(__name__, SOURCES)
