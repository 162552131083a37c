"""Conditions of this machine that latencies depend on, and the folder of what is kept of them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.hardware.devices import usable_cores

if TYPE_CHECKING:
    from placement_gym.backends.measured.measuring import MeasuringBackend

Json = dict[str, Any]


def cache_folder() -> Path:
    """The folder for what this user's machine has measured; it need not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "placement_gym"


def describe_conditions(backend: MeasuringBackend) -> Json:
    """Units and their grouping, devices with their properties, machine, version of OpenVINO."""
    import openvino as ov

    problem = backend.problem
    return {
        "alias": backend.alias,
        "problem": problem.fingerprint(),
        "devices": [device.to_json() for device in problem.devices],
        "machine": [platform.node(), platform.processor(), usable_cores()],
        "openvino": ov.__version__,
    }


def compute_digest(conditions: Json) -> str:
    """Sixteen hex digits that change with any of the conditions."""
    text = json.dumps(conditions, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
