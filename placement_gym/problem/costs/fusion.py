"""Costs of fused operators: one launch, and no traffic for what stays inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from placement_gym.base.arrays import FloatArray
from placement_gym.base.errors import UserError
from placement_gym.graph.operators import OpGraph
from placement_gym.hardware.devices import DeviceSpec
from placement_gym.problem.costs.analytic import time_parts
from placement_gym.problem.costs.rooflines import roofline
from placement_gym.problem.costs.table import CostTable

KNOWN = ("analytic", "calibrated")
"""Sources of tables whose times have the parts that fusion changes."""


class FusionCosts(NamedTuple):
    """The parts of operator times.

    An operator takes ``launch_ms + max(arithmetic_ms, traffic_ms)``. Operators that are fused take
    the longest launch among them, and each the maximum of its arithmetic and its remaining
    traffic.

    Attributes:
        launch_ms: (n_operators, n_devices).
        arithmetic_ms: (n_operators, n_devices).
        traffic_ms: (n_operators, n_devices) of weights, outputs and inputs.
        tensor_ms: (n_tensors, n_devices) to write or to read each of the graph's tensors.
    """

    launch_ms: FloatArray
    arithmetic_ms: FloatArray
    traffic_ms: FloatArray
    tensor_ms: FloatArray

    @classmethod
    def of(cls, graph: OpGraph, devices: Sequence[DeviceSpec], costs: CostTable) -> FusionCosts:
        """The parts of a table's times.

        Raises:
            UserError: The table does not have them.
        """
        if costs.source not in KNOWN or graph.phases:
            raise UserError(
                "fusion needs the analytic costs of a model without state: a table of times does "
                "not say how much of them are launches and traffic"
            )
        parts = [time_parts(graph, device) for device in devices]
        launch = np.stack(
            [busy * roofline(d).launch_ms for (busy, _, _), d in zip(parts, devices, strict=True)],
            axis=1,
        )
        arithmetic = np.stack([busy * ms for busy, ms, _ in parts], axis=1)
        traffic = np.stack([busy * ms for busy, _, ms in parts], axis=1)
        per_byte = np.array([1e-6 / roofline(device).gbytes_per_s for device in devices])
        total = (launch + np.maximum(arithmetic, traffic)).sum(axis=0)
        factors = costs.operator_ms.sum(axis=0) / np.maximum(total, 1e-300)
        tensor = graph.tensors.size_bytes[:, None] * per_byte
        whole = [np.ascontiguousarray(p * factors) for p in (launch, arithmetic, traffic, tensor)]
        return cls(*whole)
