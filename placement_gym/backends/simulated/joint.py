"""The simulated backend for actions that also decide priority and fusion."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np

from placement_gym.backends import BackendWrapper, Batch, Measurement
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.base import BoolArray, FloatArray, IntArray, UInt8, UInt32, UserError
from placement_gym.graph import Units
from placement_gym.problem import FUSION, PRIORITY, ActionLayout, Choices
from placement_gym.schedules import (
    FusionCosts,
    Program,
    Readings,
    Simulator,
    event_fifo,
    event_heap,
    group_operators,
    offsets,
    time_groups,
    uint32,
)


class JointSimulator(Simulator):
    """An event schedule with priority levels and fused operators.

    With ``by_level`` a free device starts the ready operator of the highest level, among equal ones
    the first in topological order. Otherwise the semantics define the order.
    """

    choices: Choices

    def __init__(self, plain: Simulator, by_level: bool, fusion: Fusion | None) -> None:
        super().__init__(plain.units, plain.costs, plain.semantics)
        self.by_level, self.fusion = by_level, fusion

    def choosing(self, choices: Choices) -> JointSimulator:
        """The same simulator with the levels and fused edges of one row."""
        simulator = copy(self)
        simulator.choices = choices
        return simulator

    def latency_ms(self, placement: UInt8) -> float:
        return self.schedule(placement)[0]

    def latencies_ms(self, placements: UInt8) -> FloatArray:
        return np.array([self.latency_ms(placement) for placement in placements])

    def schedule(self, placement: UInt8) -> tuple[float, FloatArray, FloatArray]:
        """See ``Simulator.schedule``; fused operators start and finish together."""
        program, channels, preference = self.program, self.channels, self.order_of_operators()
        group = None
        if self.fusion is not None and self.choices.fused.any():
            bits = self.choices.fused.astype(np.uint8)
            program, placement, group = self.fusion.fuse(placement[program.unit], bits)
            preference = lowest_of_groups(preference, group, len(placement))
        fixed = program, placement, channels, self.transfer, *self.gaps_ms
        if len(preference) or self.semantics.contention == "none":
            latency, start, finish = event_heap(*fixed, preference)
        else:
            latency, start, finish = event_fifo(*fixed)
        return (latency, start, finish) if group is None else (latency, start[group], finish[group])

    def order_of_operators(self) -> FloatArray:
        """(n_operators,) preference, of which the minimum starts first; (0,) in fifo order."""
        if self.by_level:
            return -self.choices.priority[self.program.unit].astype(np.float64)
        return self.preference


def lowest_of_groups(preference: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """(n_groups,) minimum over the operators of each group; (0,) in fifo order."""
    if not len(preference):
        return preference
    lowest = np.full(n_groups, np.inf)
    np.minimum.at(lowest, group, preference)
    return lowest


class JointBackend(BackendWrapper):
    """Evaluates rows of decisions; a placement alone has level 0 and nothing fused.

    Raises:
        UserError: The schedule, the costs or the memory model does not allow these decisions.
    """

    inner: SimulatedBackend

    def __init__(self, inner: SimulatedBackend, layout: ActionLayout) -> None:
        super().__init__(inner)
        self.layout = layout
        check_semantics(inner, layout)
        problem, plain = inner.problem, inner.simulator
        fusion = None
        if FUSION in layout.names:
            costs = FusionCosts.from_graph(problem.units.graph, problem.devices, inner.costs)
            fusion = Fusion(problem.units, plain.program, costs)
        self.simulator = JointSimulator(plain, PRIORITY in layout.names, fusion)
        reference = problem.single(problem.reference_device)
        self.reference_ms = self.bind(reference)[0].evaluate_ignoring_limits(reference).latency_ms
        inner.reference_ms = self.reference_ms

    @property
    def noise(self) -> float:
        return self.inner.noise

    def bind(self, row: IntArray) -> tuple[SimulatedBackend, IntArray]:
        """A backend with the levels and fused edges of a row, and the placement of the row."""
        choices = self.layout.split(row)
        bound = copy(self.inner)
        bound.simulator = self.simulator.choosing(choices)
        return bound, choices.placement

    def evaluate(self, assignment: IntArray) -> Measurement:
        backend, placement = self.bind(assignment)
        return backend.evaluate(placement)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        backend, placement = self.bind(assignment)
        return backend.evaluate_ignoring_limits(placement)

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        return Batch.evaluate(self.evaluate, assignments)

    def evaluate_batch_exactly(self, assignments: IntArray) -> tuple[FloatArray, BoolArray]:
        bound = [self.bind(assignment) for assignment in assignments]
        parts = [backend.evaluate_batch_exactly(placement[None]) for backend, placement in bound]
        latency_ms, feasible = (np.concatenate(part) for part in zip(*parts, strict=True))
        return latency_ms, feasible

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        bound = [self.bind(assignment) for assignment in assignments]
        exact = [backend.remeasure([placement])[0] for backend, placement in bound]
        return [replace(result, reference_ms=exact[0].latency_ms) for result in exact]

    def infeasibility(self, assignment: IntArray) -> str:
        return self.inner.infeasibility(self.layout.split(assignment).placement)

    def excess_shares(self, assignments: IntArray) -> FloatArray:
        return self.inner.excess_shares(assignments[:, : self.layout.n_units])

    def start_ms(self, assignment: IntArray) -> FloatArray:
        backend, placement = self.bind(assignment)
        return backend.start_ms(placement)

    def schedule(self, assignment: IntArray) -> tuple[float, FloatArray, FloatArray]:
        backend, placement = self.bind(assignment)
        return backend.schedule(placement)


def check_semantics(backend: SimulatedBackend, layout: ActionLayout) -> None:
    """Raise ``UserError`` if the schedule or the memory model does not allow the decisions."""
    axes = backend.semantics
    if axes.schedule != "event":
        raise UserError(
            f"decisions={layout.names} need an event schedule, as schedule='event', not "
            f"{axes.schedule!r}: other schedules run operators in a fixed order"
        )
    if FUSION in layout.names and axes.memory in ("lifetime", "outputs"):
        raise UserError(
            f"fusion needs memory='static' or 'off', not {axes.memory!r}: outputs inside of fused "
            "operators are never in memory"
        )


class Fusion:
    """Fuses edges between units of one problem; edges within a unit are not fused."""

    def __init__(self, units: Units, program: Program, costs: FusionCosts) -> None:
        # Tensors in the order of the program, with all readers.
        graph, self.program = units.graph, program
        tensors = graph.movable[np.argsort(graph.movable_tensors.source, kind="stable")]
        self.n_readers = np.diff(graph.tensors.offsets)[tensors].astype(np.int32)
        self.costs = costs._replace(tensor_ms=np.ascontiguousarray(costs.tensor_ms[tensors]))
        # The edge between units that each reading is on, or -1 within a unit.
        self.readings = Readings.from_program(program)
        reader = np.repeat(np.arange(len(program.unit)), np.diff(self.readings.first))
        ends = program.unit[self.readings.producer], program.unit[reader]
        edges, n = units.quotient.edge_index, len(units)
        keys = edges[0] * n + edges[1]  # ascending: edges are sorted
        edge_keys = ends[0].astype(np.int64) * n + ends[1]
        positions = np.searchsorted(keys, edge_keys).clip(max=max(len(keys) - 1, 0))
        self.edge = np.where(ends[0] == ends[1], -1, positions).astype(np.int32)

    @cached_property
    def tensor_of_reading(self) -> UInt32:
        """(n_readings,) tensor of each reading of the program."""
        n_readers = np.diff(self.program.first_reader).astype(np.int64)
        return uint32(np.repeat(np.arange(len(n_readers)), n_readers))

    def fuse(self, place: UInt8, fused_edges: UInt8) -> tuple[Program, UInt8, IntArray]:
        """Fuse along (n_edges,) chosen edges where ``group_operators`` allows it.

        Returns:
            A program with the groups as operators and units, their (n_groups,) devices, and the
            (n_operators,) group of each operator.
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
        return self.contract(group, count, ms), home, group

    def contract(self, group: IntArray, count: int, ms: FloatArray) -> Program:
        """The program of the groups, without tensors inside of a group."""
        program = self.program
        # Readings between groups, sorted by the group of the source.
        maker, reader = group[program.source[self.tensor_of_reading]], group[program.readers]
        outer_edges = np.flatnonzero(maker != reader)
        outer_edges = outer_edges[np.argsort(maker[outer_edges], kind="stable")]
        # The first of consecutive readings of the same tensor.
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
            n_inputs=uint32(np.bincount(reader[outer_edges], minlength=count)),
        )
