"""Device placement of neural networks as a Gymnasium environment, measured with OpenVINO."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from envs_registry import register_envs
from placement_gym.devices import DeviceSpec
from placement_gym.placement import Placement, PlacementMismatchError
from placement_gym.version import VERSION

if TYPE_CHECKING:
    from placement_gym.bench.compare import compare
    from placement_gym.deploy import apply_placement, compile_model

__version__ = VERSION
__all__ = [
    "DeviceSpec",
    "Placement",
    "PlacementMismatchError",
    "apply_placement",
    "compare",
    "compile_model",
]

LAZY = {
    "apply_placement": "placement_gym.deploy",
    "compare": "placement_gym.bench.compare",
    "compile_model": "placement_gym.deploy",
}


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(import_module(LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_envs()
