"""The program of fused operators: what the event kernels schedule in place of operators."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8, UInt32
from placement_gym.graph import Units
from placement_gym.schedules import (
    FusionCosts,
    Program,
    Readings,
    group_operators,
    offsets,
    time_groups,
    uint32,
)


class FusedProgram(NamedTuple):
    """Groups of operators as the operators of a program.

    Attributes:
        program: Each group is a unit of its own.
        place: (n_groups,) uint8 devices.
        group: (n_operators,) group of each operator.
    """

    program: Program
    place: UInt8
    group: IntArray


class Fusion:
    """Fuses edges between units of one problem; edges within a unit are not fused."""

    def __init__(self, units: Units, program: Program, costs: FusionCosts) -> None:
        graph, self.program = units.graph, program
        order = np.argsort(graph.moved.source, kind="stable")
        self.readings = Readings.of(program)
        self.n_readers = np.diff(graph.tensors.offsets)[graph.moving[order]].astype(np.int32)
        tensor_ms = np.ascontiguousarray(costs.tensor_ms[graph.moving[order]])
        self.costs = costs._replace(tensor_ms=tensor_ms)
        reader = np.repeat(np.arange(len(program.unit)), np.diff(self.readings.first))
        ends = program.unit[self.readings.producer], program.unit[reader]
        edges, n = units.quotient.edge_index, len(units)
        keys = edges[0] * n + edges[1]  # ascending: edges are sorted
        edge_keys = ends[0].astype(np.int64) * n + ends[1]
        positions = np.searchsorted(keys, edge_keys).clip(max=max(len(keys) - 1, 0))
        self.edge = np.where(ends[0] == ends[1], -1, positions).astype(np.int32)

    @cached_property
    def tensor_of_reading(self) -> UInt32:
        """(n_readings,) tensor of each of the program's readings."""
        n_readers = np.diff(self.program.first_reader).astype(np.int64)
        return uint32(np.repeat(np.arange(len(n_readers)), n_readers))

    def fuse(self, place: UInt8, fused_edges: UInt8) -> FusedProgram:
        """Fuse along the chosen edges where that is possible, see ``group_operators``.

        Args:
            place: (n_operators,) devices.
            fused_edges: (n_edges,) uint8.
        """
        fixed = place, self.edge, fused_edges
        group = group_operators(self.readings, *fixed)
        program = self.program
        spent = time_groups(program, self.readings, self.costs, self.n_readers, *fixed, group)
        count = len(spent)
        home = np.zeros(count, dtype=np.uint8)
        home[group] = place
        ms = np.zeros((count, program.ms.shape[1]))
        ms[np.arange(count), home] = spent
        return FusedProgram(self.contract(group, count, ms), home, group)

    def contract(self, group: IntArray, count: int, ms: FloatArray) -> Program:
        """The program of groups; tensors that all stay inside of one are gone."""
        program = self.program
        maker, reader = group[program.source[self.tensor_of_reading]], group[program.readers]
        outer_edges = np.flatnonzero(maker != reader)
        outer_edges = outer_edges[np.argsort(maker[outer_edges], kind="stable")]
        sequence = self.tensor_of_reading[outer_edges].astype(np.int64)
        begins = np.flatnonzero(np.diff(sequence, prepend=-1))
        tensor = sequence[begins]
        source = group[program.source[tensor]]
        return Program(
            unit=uint32(np.arange(count)),
            ms=ms,
            first_tensor=offsets(np.bincount(source, minlength=count)),
            source=uint32(source),
            first_reader=offsets(np.diff(begins, append=len(outer_edges))),
            readers=uint32(reader[outer_edges]),
            transfer_ms=np.ascontiguousarray(program.transfer_ms[tensor]),
            boundary_ms=np.ascontiguousarray(program.boundary_ms[tensor]),
            inputs=uint32(np.bincount(reader[outer_edges], minlength=count)),
        )
