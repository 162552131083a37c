"""Tensors that are larger than what a device allocates at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from by_hand import made_graph

from placement_gym.graph import group
from placement_gym.hardware import DeviceSpec
from placement_gym.problem import fits_allocations


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (DeviceSpec("GPU"), [True, True, True]),
        (DeviceSpec("GPU", allocation_bytes=1000), [False, False, True]),
        (DeviceSpec("GPU", allocation_bytes=800), [False, False, False]),
        (DeviceSpec("GPU", precision="f16", allocation_bytes=500), [False, False, True]),
    ],
)
def test_units_whose_tensors_are_too_large_do_not_fit(
    device: DeviceSpec, expected: list[bool]
) -> None:
    graph = made_graph(3, [(0, [1]), (1, [2])])
    tensors = replace(graph.tensors, size_bytes=np.array([1100, 10]))
    graph = replace(graph, tensors=tensors, weight_bytes=np.array([2000, 0, 900]))
    assert fits_allocations(group(graph, "op"), device).tolist() == expected
