"""Which units each device supports, according to OpenVINO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from placement_gym.arrays import BoolArray
from placement_gym.devices import DeviceSpec
from placement_gym.graph.operators import FOLLOWERS
from placement_gym.graph.units import Units

if TYPE_CHECKING:
    import openvino as ov


def query_support(
    core: ov.Core, model: ov.Model, units: Units, devices: Sequence[DeviceSpec]
) -> BoolArray:
    """(n_units, n_devices) bool: the device runs every operator of the unit.

    Constants, Parameters and Results follow their neighbours and need no support.
    """
    graph = units.graph
    result = np.ones((len(units), len(devices)), dtype=np.bool_)
    for column, device in enumerate(devices):
        known = core.query_model(model, device.name)
        for operator, (name, kind) in enumerate(zip(graph.names, graph.types, strict=True)):
            if name not in known and kind not in FOLLOWERS:
                result[units.of_operator[operator], column] = False
    return result
