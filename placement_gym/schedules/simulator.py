"""The interface to the kernels: latencies, schedules and submodels of placements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from pkgutil import resolve_name

import numpy as np

from placement_gym.base import FloatArray, IntArray, UInt8, UInt32
from placement_gym.graph import Units
from placement_gym.problem.costs import CHOICES, CostTable, Semantics
from placement_gym.schedules.memory import peak_bytes
from placement_gym.schedules.program import Channels, Flow, Program, Readings, uint32, upward_rank
from placement_gym.schedules.submodels import count_stages, count_submodels
from placement_gym.schedules.sums import (
    fill_lanes,
    load_schedule,
    serial,
    serial_batch,
    serial_starts,
    traffic,
)

TIMED = {
    "event": "placement_gym.schedules.event:EventSchedule",
    "list": "placement_gym.schedules.list:ListSchedule",
    "calls": "placement_gym.schedules.call_schedule:CallSchedule",
}
"""Schedules in which devices work in parallel; the others are sums."""


class Simulator:
    """Computes latencies of the operators of placed units under a cost table and semantics.

    A placement is a contiguous (n_units,) uint8 array: kernels are recompiled for other types.
    """

    def __init__(self, units: Units, costs: CostTable, semantics: Semantics) -> None:
        self.semantics = semantics
        self.costs = costs
        self.units = units
        self.program = Program.from_units(units, costs)
        self.channels = Channels.from_contention(semantics.contention, len(costs.devices))
        self.transfer = CHOICES["transfer"].index(semantics.transfer)
        self.counts_submodels = bool(costs.submodel_ms.any())
        # Kernels would be compiled again for integers.
        self.gaps_ms = float(semantics.op_gap_ms), float(semantics.link_gap_ms)

    @cached_property
    def flow(self) -> tuple[Flow, UInt32, IntArray]:
        """The edges that determine submodels, and the unit and model of their operators."""
        graph = self.units.graph
        if not graph.states:
            return Flow.from_graph(graph), self.program.unit, graph.model_of
        from placement_gym.graph import join_operators

        joined, _, first = join_operators(graph)
        return Flow.from_graph(joined), self.program.unit[first], graph.model_of[first]

    @cached_property
    def timed(self) -> TimedSchedule:
        """The schedule, if it is one of ``TIMED``."""
        schedule: TimedSchedule = resolve_name(TIMED[self.semantics.schedule])(self)
        return schedule

    @cached_property
    def readings(self) -> Readings:
        """The tensors that each operator reads."""
        return Readings.from_program(self.program)

    @cached_property
    def sequence(self) -> UInt32:
        """(n_operators,) uint32 operators in the order of a list schedule."""
        if self.semantics.order == "fifo":
            return uint32(np.arange(len(self.program.unit)))
        return uint32(np.argsort(-self.rank, kind="stable"))

    @cached_property
    def preference(self) -> FloatArray:
        """(n_operators,) a device runs the ready operator of minimum value; (0,) in fifo order."""
        by_rank = self.semantics.order == "priority"
        return -self.rank if by_rank else np.empty(0)

    @property
    def rank(self) -> FloatArray:
        """(n_operators,) upward rank, which sorts lists and device queues."""
        costs, graph = self.costs, self.units.graph
        return upward_rank(
            costs.operator_ms, costs.transfer_ms[graph.movable], graph.movable_tensors
        )

    def latency_ms(self, placement: UInt8) -> float:
        """The latency of one placement."""
        if self.semantics.schedule == "serial" and self.counts_submodels:
            return self.latency_and_submodels(placement)[0]
        if self.semantics.schedule == "serial":
            return serial(self.program, placement)
        if self.semantics.schedule == "load":
            loads = load_schedule(self.program, placement)
            if self.counts_submodels:
                loads += self.stages(placement) * self.costs.submodel_ms
            return float(loads.max())
        return self.timed.latency_ms(placement)

    def latency_and_submodels(self, placement: UInt8) -> tuple[float, IntArray]:
        """The latency, and (n_devices,) submodels on each device."""
        submodels = self.submodels(placement)
        if self.semantics.schedule == "serial" and self.counts_submodels:
            submodel_ms = float(submodels @ self.costs.submodel_ms)
            return serial(self.program, placement) + submodel_ms, submodels
        return self.latency_ms(placement), submodels

    def latencies_ms(self, placements: UInt8) -> FloatArray:
        """(k,) latencies of (k, n_units) placements, bitwise those of ``latency_ms``."""
        if self.semantics.schedule in TIMED:
            return self.timed.latencies_ms(placements)
        is_plain = self.semantics.schedule == "serial" and not self.counts_submodels
        if is_plain and fill_lanes(len(placements), len(self.costs.devices)):
            return serial_batch(self.program, np.ascontiguousarray(placements.T))
        return np.array([self.latency_ms(placement) for placement in placements])

    @property
    def is_uncontended_list(self) -> bool:
        """True for a list schedule in which no transfer waits for another."""
        axes = self.semantics
        return axes.schedule == "list" and axes.contention == "none" and axes.transfer != "output"

    def schedule(self, placement: UInt8) -> tuple[float, FloatArray, FloatArray]:
        """Latency, and (n_operators,) start and finish of each operator, in ms.

        Schedule ``"load"`` has the start and finish of a serial schedule.
        """
        if self.semantics.schedule in TIMED:
            return self.timed.schedule(placement)
        start = self.start_ms(placement)
        return self.latency_ms(placement), start, start + self.operator_ms(placement)

    def start_ms(self, placement: UInt8) -> FloatArray:
        """(n_operators,) start of each operator; see ``schedule``."""
        if self.semantics.schedule in TIMED:
            return self.timed.schedule(placement)[1]
        return serial_starts(self.program, placement)

    def operator_ms(self, placement: UInt8) -> FloatArray:
        """(n_operators,) time of each operator where it is placed."""
        program = self.program
        return program.ms[np.arange(len(program.unit)), placement[program.unit]]

    def submodels(self, placement: UInt8) -> IntArray:
        """(n_devices,) submodels on each device."""
        flow, unit, _ = self.flow
        return count_submodels(flow, unit, placement, self.program.ms.shape[1])

    def stages(self, placement: UInt8) -> IntArray:
        """(n_devices,) stage inferences on each device per request, or per round of a union."""
        n_devices, rates = self.program.ms.shape[1], self.units.graph.rates
        return count_stages(*self.flow, rates, placement, n_devices)

    def traffic(self, placement: UInt8) -> tuple[int, int]:
        """Number of transfers between devices, and the bytes that they move."""
        return traffic(self.program, placement, self.tensor_bytes)

    @cached_property
    def tensor_bytes(self) -> IntArray:
        """(n_tensors,) size of each tensor, in the program's order."""
        tensors = self.units.graph.movable_tensors
        return tensors.size_bytes[np.argsort(tensors.source, kind="stable")]

    @cached_property
    def held_bytes(self) -> IntArray:
        """(n_tensors,) memory of each tensor, in the program's order."""
        tensors = self.units.graph.movable_tensors
        sizes = tensors.size_bytes if tensors.held_bytes is None else tensors.held_bytes
        return sizes[np.argsort(tensors.source, kind="stable")]

    def output_bytes(self, placement: UInt8) -> IntArray:
        """(n_devices,) peak bytes of live outputs in an event or list schedule."""
        _, start, finish = self.schedule(placement)
        where, n_devices = placement[self.program.unit], len(self.costs.devices)
        return peak_bytes(self.program, self.held_bytes, where, start, finish, n_devices)


class TimedSchedule(ABC):
    """A schedule of ``TIMED`` for a simulator's semantics and arrays."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator

    @abstractmethod
    def schedule(self, placement: UInt8) -> tuple[float, FloatArray, FloatArray]:
        """See ``Simulator.schedule``."""

    def latency_ms(self, placement: UInt8) -> float:
        """See ``Simulator.latency_ms``."""
        return self.schedule(placement)[0]

    def latencies_ms(self, placements: UInt8) -> FloatArray:
        """See ``Simulator.latencies_ms``."""
        return np.array([self.latency_ms(placement) for placement in placements])
