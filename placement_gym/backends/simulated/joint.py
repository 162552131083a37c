"""The simulated backend where priority and fusion are decided, too."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from placement_gym.backends import BackendWrapper, Batch, Measurement
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.fused_program import Fusion
from placement_gym.base import BoolArray, FloatArray, IntArray, UInt8, UserError
from placement_gym.problem import FUSION, PRIORITY, ActionLayout, Choices
from placement_gym.schedules import FusionCosts, Simulator, event_fifo, event_heap


class JointSimulator(Simulator):
    """An event schedule in which devices choose by level, and of fused operators.

    Args:
        plain: The simulator of placements alone.
        by_level: Whether a free device starts the ready operator of the highest level, of equal
            ones the first in topological order. Otherwise order is that of the semantics.
        fusion: Fuses operators; None if that is not decided.
    """

    choices: Choices

    def __init__(self, plain: Simulator, by_level: bool, fusion: Fusion | None) -> None:
        super().__init__(plain.units, plain.costs, plain.semantics)
        self.by_level, self.fusion = by_level, fusion

    def choosing(self, choices: Choices) -> JointSimulator:
        """The same simulator, under one row's levels and fused edges."""
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
            preference = take_first(preference, group, len(placement))
        fixed = program, placement, channels, self.transfer, *self.gaps_ms
        if len(preference) or self.semantics.contention == "none":
            latency, start, finish = event_heap(*fixed, preference)
        else:
            latency, start, finish = event_fifo(*fixed)
        return (latency, start, finish) if group is None else (latency, start[group], finish[group])

    def order_of_operators(self) -> FloatArray:
        """(n_operators,) a free device starts the ready operator of minimum value; (0,) in turn."""
        if self.by_level:
            return -self.choices.priority[self.program.unit].astype(np.float64)
        return self.preference


def take_first(preference: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """(n_groups,) the minimum over each group's operators; (0,) of nothing."""
    if not len(preference):
        return preference
    first_rank = np.full(n_groups, np.inf)
    np.minimum.at(first_rank, group, preference)
    return first_rank


class JointBackend(BackendWrapper):
    """Evaluates rows of decisions under an event schedule; a placement alone has level 0, unfused.

    Raises:
        UserError: Schedule, costs or memory do not allow these decisions.
    """

    inner: SimulatedBackend

    def __init__(self, inner: SimulatedBackend, layout: ActionLayout) -> None:
        super().__init__(inner)
        self.layout = layout
        check_semantics(inner, layout)
        problem, plain = inner.problem, inner.simulator
        fusion = None
        if FUSION in layout.names:
            costs = FusionCosts.of(problem.units.graph, problem.devices, inner.costs)
            fusion = Fusion(problem.units, plain.program, costs)
        self.simulator = JointSimulator(plain, PRIORITY in layout.names, fusion)
        reference = problem.single(problem.reference_device)
        self.reference_ms = self.bind(reference)[0].evaluate_ignoring_limits(reference).latency_ms
        inner.reference_ms = self.reference_ms

    @property
    def noise(self) -> float:
        return self.inner.noise

    def bind(self, row: IntArray) -> tuple[SimulatedBackend, IntArray]:
        """A backend under the levels and fused edges of a row, and its placement."""
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
        return Batch.of(self.evaluate, assignments)

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
    """Raise ``UserError`` if the schedule or the memory model does not go with the decisions."""
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
