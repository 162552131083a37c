"""The simulated backend: deterministic latencies from a cost table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from placement_gym.backends import PENALTY, Batch, Measurement
from placement_gym.base import (
    MAX_NOISE,
    BoolArray,
    FloatArray,
    IntArray,
    UInt8,
    UserError,
    check_not_negative,
)
from placement_gym.problem import Problem
from placement_gym.problem.costs import MIN_MS, CostTable, Semantics
from placement_gym.schedules import Simulator, check_limits, count_bytes, held_bytes
from placement_gym.workloads import objective_of

NORMAL_QUANTILE = 1.96
"""Half-width of the 95 % interval of a normal distribution, in standard deviations."""


class SimulatedBackend:
    """Evaluates placements with a ``CostTable``.

    Args:
        problem: Units and devices.
        costs: Costs of their operators on the devices.
        semantics: Definition of the latency; None takes HETERO's serial schedule.
        noise: Standard deviation of the logarithm of latencies; single devices and re-measurements
            are exact.
    """

    def __init__(
        self,
        problem: Problem,
        costs: CostTable,
        semantics: Semantics | None = None,
        noise: float = 0.0,
    ) -> None:
        check_not_negative("noise", noise, MAX_NOISE)
        costs.check(problem.units.graph, problem.device_names)
        self.problem = problem
        self.costs = costs
        self.semantics = semantics or Semantics()
        self.simulator = Simulator(problem.units, costs, self.semantics)
        self.noise = noise
        self.rng = np.random.default_rng()
        reference = self.check_and_convert(problem.single(problem.reference_device))
        self.reference_ms = self.simulator.latency_ms(reference)

    @property
    def objective(self) -> str:
        """See ``Backend.objective``; schedule ``"load"`` simulates throughput."""
        return objective_of(self.semantics.schedule).name

    @property
    def limits_weights(self) -> bool:
        return self.semantics.limits_weights and self.problem.limited

    @property
    def rough_costs(self) -> CostTable:
        return self.costs

    def evaluate(self, assignment: IntArray) -> Measurement:
        """Deterministic, or with seeded noise; see ``Backend.evaluate``."""
        placement = self.check_and_convert(assignment)
        used, error, penalty_ms = self.check_limits(placement)
        if error:
            traffic, device_bytes = self.simulator.traffic(placement), tuple(used.tolist())
            excess = int(self.problem.memory.excess(used).sum()) * self.has_hard_limits
            return Measurement.failed(error, self.reference_ms, traffic, device_bytes, excess)
        exact = self.evaluate_exactly(placement, used, penalty_ms)
        if not self.noise:
            return exact
        latency_ms = exact.latency_ms * np.exp(self.noise * self.rng.standard_normal())
        noise = NORMAL_QUANTILE * self.noise
        return replace(exact, latency_ms=latency_ms, latency_p90_ms=latency_ms, noise=noise)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        """As ``evaluate``, without memory limits and noise."""
        placement = self.check_and_convert(assignment)
        return self.evaluate_exactly(placement, self.memory_bytes(placement))

    def check_limits(self, placement: UInt8) -> tuple[IntArray, str, float]:
        """(n_devices,) bytes of a placement, and the result of ``schedules.check_limits``."""
        used = self.memory_bytes(placement)
        return used, *check_limits(self.problem, self.simulator, placement, used)

    def infeasibility(self, assignment: IntArray) -> str:
        """See ``Backend.infeasibility``; the semantics define what memory counts."""
        return self.check_limits(self.check_and_convert(assignment))[1]

    def excess_shares(self, assignments: IntArray) -> FloatArray:
        """See ``Backend.excess_shares``; the semantics define what memory counts."""
        if not self.has_hard_limits:
            return np.zeros(len(assignments))
        used = self.memory_bytes_of_batch(self.check_and_convert(assignments))
        return self.problem.memory.excess_shares(used)

    @property
    def has_hard_limits(self) -> bool:
        """True if a placement that exceeds a memory limit is infeasible."""
        axes = self.semantics
        is_hard = axes.memory != "off" and axes.memory_penalty_ms_per_gb is None
        return is_hard and self.problem.limited

    def memory_bytes_of_batch(self, placements: UInt8) -> FloatArray:
        """(k, n_devices) bytes by ``Semantics.memory``."""
        n_devices = len(self.problem.devices)
        if self.semantics.memory == "static":
            return held_bytes(placements, self.problem.unit_bytes, n_devices)
        used = np.array(
            [self.memory_bytes(placement) for placement in placements], dtype=np.float64
        )
        return used.reshape(len(placements), n_devices)

    def memory_bytes(self, placement: UInt8) -> IntArray:
        """See ``schedules.count_bytes``."""
        return count_bytes(self.problem, self.simulator, placement)

    def evaluate_exactly(
        self, placement: UInt8, used: IntArray, penalty_ms: float = 0.0
    ) -> Measurement:
        """Evaluate a placement that holds ``used`` bytes, without limits and noise."""
        exact_ms, submodels = self.simulator.latency_and_submodels(placement)
        latency_ms, n_submodels = exact_ms + penalty_ms, sum(submodels.tolist())
        n_transfers, transfer_bytes = self.simulator.traffic(placement)
        return Measurement(
            latency_ms,
            self.reference_ms,
            latency_p90_ms=latency_ms,
            n_submodels=n_submodels,
            n_submodels_expected=n_submodels,
            n_transfers=n_transfers,
            transfer_bytes=transfer_bytes,
            memory_bytes=tuple(used.tolist()),
        )

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        """See ``Backend.evaluate_batch``; bitwise equal to repeated ``evaluate``."""
        latency_ms, feasible = self.evaluate_batch_exactly(assignments)
        if self.noise:
            for k in np.flatnonzero(feasible):
                latency_ms[k] *= np.exp(self.noise * self.rng.standard_normal())
        return Batch(self.reference_ms / latency_ms, feasible, np.zeros_like(feasible))

    def check_and_convert(self, assignments: IntArray) -> UInt8:
        """Check (n_units,) or (k, n_units) assignments and convert them for the kernels."""
        self.problem.check(assignments)
        return uint8(assignments)

    def evaluate_batch_exactly(self, assignments: IntArray) -> tuple[FloatArray, BoolArray]:
        """(k,) latencies in ms without noise, and feasibility."""
        placements = self.check_and_convert(assignments)
        latency_ms = self.simulator.latencies_ms(placements)
        feasible, penalty_ms = self.check_limits_of_batch(placements)
        return np.where(feasible, latency_ms + penalty_ms, PENALTY * self.reference_ms), feasible

    def check_limits_of_batch(self, placements: UInt8) -> tuple[BoolArray, FloatArray]:
        """(k,) whether placements are feasible, and penalties in ms; see ``check_limits``."""
        problem, axes = self.problem, self.semantics
        n = len(placements)
        feasible, penalty_ms = np.ones(n, dtype=np.bool_), np.zeros(n)
        if not problem.supports_all:
            feasible &= problem.supported[np.arange(problem.n_units), placements].all(axis=1)
        if problem.max_submodels is not None:
            counts = [int(self.simulator.submodels(placement).sum()) for placement in placements]
            feasible &= np.array(counts) <= problem.max_submodels
        if axes.memory == "off" or not problem.limited:
            return feasible, penalty_ms
        excess = problem.memory.excess(self.memory_bytes_of_batch(placements))
        if axes.memory_penalty_ms_per_gb is None:
            return feasible & ~excess.any(axis=1), penalty_ms
        return feasible, axes.memory_penalty_ms_per_gb * excess.sum(axis=1) / 1e9

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """Evaluate without noise; see ``Backend.remeasure``."""
        exact = []
        for placement in map(self.check_and_convert, assignments):
            used, _, penalty_ms = self.check_limits(placement)
            exact.append(self.evaluate_exactly(placement, used, penalty_ms))
        return [replace(result, reference_ms=exact[0].latency_ms) for result in exact]

    def schedule(self, assignment: IntArray) -> tuple[float, FloatArray, FloatArray]:
        """Latency, and (n_operators,) start and finish of operators, in ms; limits ignored."""
        return self.simulator.schedule(self.check_and_convert(assignment))

    def start_ms(self, assignment: IntArray) -> FloatArray:
        """The start of each unit's first operator; see ``Backend.start_ms``."""
        start = self.simulator.start_ms(self.check_and_convert(assignment))
        order, first = self.operators_by_unit
        return np.minimum.reduceat(start[order], first)

    @cached_property
    def operators_by_unit(self) -> tuple[IntArray, IntArray]:
        """(n_operators,) operators sorted by unit, and (n_units,) the position of each first."""
        unit = self.problem.units.of_operator
        order = np.argsort(unit, kind="stable")
        return order, np.searchsorted(unit[order], np.arange(self.problem.n_units))

    def cost_table(self) -> CostTable:
        """``costs``; see ``Backend.cost_table``."""
        return self.costs

    def own_choice(self, plugin: str) -> IntArray:
        """Not available; see ``Backend.own_choice``.

        Raises:
            UserError: Always.
        """
        raise UserError(
            f"{plugin}'s choice is OpenVINO's, which a simulation lacks: use the agent "
            "single-device, or a measured environment, as DevicePlacement-v0"
        )

    def check_times(self) -> None:
        """Raise ``UserError`` if a placement could take no time: its speed-up is undefined."""
        if self.reference_ms < MIN_MS:
            device = self.problem.device_names[self.problem.reference_device]
            raise UserError(
                f"the model takes {self.reference_ms:.3g} ms on {device}, the reference of every "
                "speed-up: some operator must take time there; state its costs in ms"
            )
        unit_ms = self.costs.unit_ms(self.problem.units)
        if np.where(self.problem.supported, unit_ms, np.inf).min(axis=1).max() < MIN_MS:
            raise UserError(
                "every unit takes 0 ms on some device: a placement could take no time, and no "
                "speed-up can be stated of it; state the costs of these devices in ms"
            )

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


def uint8(assignment: IntArray) -> UInt8:
    """Convert to what kernels are compiled for: a contiguous and writable array."""
    placement = np.ascontiguousarray(assignment, dtype=np.uint8)
    return placement if placement.flags.writeable else placement.copy()
