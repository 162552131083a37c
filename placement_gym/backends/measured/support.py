"""Which units each device supports, according to OpenVINO."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from placement_gym.base.arrays import BoolArray
from placement_gym.graph.operators import FOLLOWERS
from placement_gym.graph.units import Units


def find_supported(units: Units, operators: Sequence[Collection[str]]) -> BoolArray:
    """(n_units, n_devices) bool: the device runs every operator of the unit.

    Constants, Parameters and Results follow their neighbours and need no support.

    Args:
        units: Groups of operators.
        operators: For each device, the names of the operators that it supports.
    """
    graph = units.graph
    result = np.ones((len(units), len(operators)), dtype=np.bool_)
    for column, known in enumerate(map(set, operators)):
        for operator, (name, kind) in enumerate(zip(graph.names, graph.types, strict=True)):
            if name not in known and kind not in FOLLOWERS:
                result[units.of_operator[operator], column] = False
    return result
