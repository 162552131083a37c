"""Groups of fused operators and their times: one launch, and no traffic for inner tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, Int32, UInt8, UserError, kernel
from placement_gym.graph import OpGraph
from placement_gym.hardware import DeviceSpec
from placement_gym.problem.costs import CostTable, roofline, time_parts
from placement_gym.schedules.program import NOTHING, Program, Readings

KNOWN = ("analytic", "calibrated")
"""Sources of cost tables with the parts that fusion changes."""


class FusionCosts(NamedTuple):
    """The parts of operator times.

    An operator takes ``launch_ms + max(arithmetic_ms, traffic_ms)``. Fused operators take their
    longest launch, and each the maximum of its arithmetic and its remaining traffic.
    """

    launch_ms: FloatArray  # (n_operators, n_devices)
    arithmetic_ms: FloatArray  # (n_operators, n_devices)
    traffic_ms: FloatArray  # (n_operators, n_devices) of weights, outputs and inputs
    tensor_ms: FloatArray  # (n_tensors, n_devices) to write or to read each of the graph's tensors

    @classmethod
    def from_graph(
        cls, graph: OpGraph, devices: Sequence[DeviceSpec], costs: CostTable
    ) -> FusionCosts:
        """The parts of a table's times; raises a ``UserError`` if the table does not have them."""
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


@kernel
def group_operators(readings: Readings, place: UInt8, edge: Int32, chosen: UInt8) -> Int32:
    """Group operators along chosen edges, such that no group waits for itself.

    An operator joins the group of the highest level that it reads from if that is the only one of
    this level, on the same device, and an edge from it is chosen. Otherwise it starts a group one
    level higher. Edges between groups lead to higher levels, so there is no cycle.

    ``place`` is (n_operators,) uint8 devices; ``edge`` is (n_readings,) int32, the edge of each
    reading or -1 within a unit; ``chosen`` is (n_edges,) uint8. Returns the (n_operators,) group of
    each operator, numbered by their first operators.
    """
    first, producer = readings.first, readings.producer
    n, count = len(place), 0
    group = np.empty(n, np.int32)
    level, home = np.zeros(n, np.int32), np.zeros(n, np.uint8)
    for i in range(n):
        # Joining a lower group, or one of two highest, could close a cycle.
        top, latest, alone = -1, NOTHING, True
        for r in range(first[i], first[i + 1]):
            other = group[producer[r]]
            if level[other] > top:
                top, latest, alone = level[other], other, True
            elif level[other] == top and other != latest:
                alone = False
        # The edge itself has to be chosen: being on a path to the group is not enough.
        joins = False
        if latest != NOTHING and alone and home[latest] == place[i]:
            for r in range(first[i], first[i + 1]):
                if group[producer[r]] == latest and edge[r] >= 0 and chosen[edge[r]]:
                    joins = True
        if joins:
            group[i] = latest
        else:
            group[i], level[count], home[count] = count, top + 1, place[i]
            count += 1
    return group


@kernel
def time_groups(
    program: Program,
    readings: Readings,
    costs: FusionCosts,
    n_readers: Int32,
    place: UInt8,
    edge: Int32,
    chosen: UInt8,
    group: Int32,
) -> FloatArray:
    """(n_groups,) time of each group on its device, in ms.

    A chosen edge inside a group saves reading its tensor. Writing is saved if all readers are fused
    with the producer: (n_tensors,) int32 ``n_readers`` also counts readers that follow. Tensors of
    ``costs`` are in the program's order; ``group`` is the result of ``group_operators``.
    """
    n, count = len(place), group.max() + 1
    saved, inside = np.zeros(n), np.zeros(len(program.source), np.int32)
    # Eliding a tensor saves its reading by a fused reader.
    for i in range(n):
        for r in range(readings.first[i], readings.first[i + 1]):
            if edge[r] >= 0 and chosen[edge[r]] and group[readings.producer[r]] == group[i]:
                tensor = readings.tensor[r]
                saved[i] += costs.tensor_ms[tensor, place[i]]
                inside[tensor] += 1
    # A tensor that is read outside the group is still written.
    for tensor in range(len(program.source)):
        if inside[tensor] == n_readers[tensor]:
            maker = program.source[tensor]
            saved[maker] += costs.tensor_ms[tensor, place[maker]]
    size, launch = np.zeros(count, np.int32), np.zeros(count)
    working, alone = np.zeros(count), np.zeros(count)
    # The launch is paid for once. Operators do not overlap: each keeps its own roofline.
    for i in range(n):
        here, mine = place[i], group[i]
        size[mine] += 1
        launch[mine] = max(launch[mine], costs.launch_ms[i, here])
        traffic = max(costs.traffic_ms[i, here] - saved[i], 0.0)
        working[mine] += max(costs.arithmetic_ms[i, here], traffic)
        alone[mine] = program.ms[i, here]
    # An operator alone keeps its time in the table, which need not be the sum of its parts.
    for g in range(count):
        if size[g] > 1:
            alone[g] = launch[g] + working[g]
    return alone
