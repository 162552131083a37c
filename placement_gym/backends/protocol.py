"""The interface of backends and the format of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from placement_gym.base import BoolArray, FloatArray, IntArray
from placement_gym.problem import Problem

if TYPE_CHECKING:
    from placement_gym.problem.costs import CostTable

PENALTY = 10.0
"""Latency of an infeasible placement in reference latencies. Hand-tuned."""
STEEPNESS = 9.0
"""Additional penalties if all bytes are in excess. Hand-tuned: fewer excess bytes always cost less.
"""


@dataclass(frozen=True)
class Measurement:
    """The cost of one placement, with the reference measured alongside.

    Attributes:
        latency_ms: Median latency; ten times the reference if the placement failed.
        reference_ms: Median latency of the reference in the same interleaved run: the reference
            device alone, unless stated otherwise.
        latency_p90_ms: 90th percentile of the latency.
        noise: Half-width of the uncertainty of ``speedup``, as a fraction of it.
        n_submodels: Submodels that the engine made.
        n_submodels_expected: Submodels that the placement needs.
        n_transfers: Tensors that change device, counted once for each destination.
        transfer_bytes: Total size of these tensors.
        memory_bytes: Bytes on each device that count against its limit.
        excess_bytes: Bytes beyond the limits of devices and pools, for a placement that failed.
        held_bytes: Bytes that each device's plugin allocated for the placement; None if it does not
            report them or the device is not used.
        compile_s: Seconds to compile.
        measure_s: Seconds of the checked first inference, warm-up and measurement.
        error: Why the placement failed, or an empty string.
        cached: Whether the measurement is an earlier one of the same placement.
        repaired: Whether another placement was proposed, which did not fit.
        warning: Why the measurement is too unreliable for a verdict, or an empty string.
        interference: Median share of time that other programs took; 0 if enough samples were calm.
            Without a ``warning``, only the size of the speed-up is uncertain, not its sign.
        parts_ms: Median latencies of the parts of a scenario of a model with state:
            ``prefill_ms``; ``token_ms``, the mean over the tokens; and ``handover_ms``, the time to
            copy the state if prompts and tokens have different placements. ``latency_ms`` is that
            of the whole scenario.
        requests: Requests in flight if throughput was measured, 0 for a placement that failed;
            latencies are then the time between two results. None for latency.
        streams: For throughput, the inferences that a device ran at a time.
        models_ms: For throughput, the median latency of each model of a union: from the start of a
            request to its result, with ``requests`` rounds in flight.
    """

    latency_ms: float
    reference_ms: float
    latency_p90_ms: float = float("nan")
    noise: float = 0.0
    n_submodels: int = 0
    n_submodels_expected: int = 0
    n_transfers: int = 0
    transfer_bytes: int = 0
    memory_bytes: tuple[int, ...] = ()
    excess_bytes: int = 0
    held_bytes: tuple[int | None, ...] = ()
    compile_s: float = 0.0
    measure_s: float = 0.0
    error: str = ""
    cached: bool = False
    repaired: bool = False
    warning: str = ""
    interference: float = 0.0
    parts_ms: Mapping[str, float] = field(default_factory=dict)
    requests: int | None = None
    streams: int | None = None
    models_ms: tuple[float, ...] | None = None

    @property
    def feasible(self) -> bool:
        return not self.error

    @property
    def speedup(self) -> float:
        return self.reference_ms / self.latency_ms

    @property
    def cost_ms(self) -> float:
        """The latency that rewards are computed from, see ``compute_cost_ms``."""
        return float(compute_cost_ms(self.latency_ms, self.excess_share))

    @property
    def excess_share(self) -> float:
        """Share of the bytes that exceed memory limits."""
        return self.excess_bytes / max(sum(self.memory_bytes), 1)

    @classmethod
    def failed(
        cls,
        error: str,
        reference_ms: float,
        traffic: tuple[int, int] = (0, 0),
        memory_bytes: tuple[int, ...] = (),
        excess_bytes: int = 0,
    ) -> Measurement:
        """The measurement of a placement that failed: its latency is ``PENALTY`` references.

        ``traffic`` is the number and the bytes of the transfers that the placement needs.
        """
        latency_ms = PENALTY * reference_ms
        n_transfers, transfer_bytes = traffic
        return cls(
            latency_ms,
            reference_ms,
            latency_ms,
            n_transfers=n_transfers,
            transfer_bytes=transfer_bytes,
            memory_bytes=memory_bytes,
            excess_bytes=excess_bytes,
            error=error,
        )


def compute_cost_ms(latency_ms: Any, excess_share: Any) -> Any:
    """Add a penalty for bytes beyond a limit to a latency, or to (k,) latencies.

    A placement that fits costs its latency. An infeasible one costs 10 reference latencies, and up
    to 100 with ``excess_share``, the share of its bytes that exceed memory limits.
    """
    return latency_ms * (1.0 + STEEPNESS * excess_share)


class Batch(NamedTuple):
    """The measurements of many placements.

    Attributes:
        speedup: (k,) float64 speed-ups over the reference device.
        feasible: (k,) bool.
        disturbed: (k,) bool, whether other programs disturbed too many samples.
    """

    speedup: FloatArray
    feasible: BoolArray
    disturbed: BoolArray

    @classmethod
    def evaluate(cls, evaluate: Callable[[IntArray], Measurement], assignments: IntArray) -> Batch:
        """Evaluate placements one after another."""
        measurements = [evaluate(assignment) for assignment in assignments]
        return cls(
            np.array([m.speedup for m in measurements]),
            np.array([m.feasible for m in measurements]),
            np.array([m.interference > 0.0 for m in measurements]),
        )


class Backend(Protocol):
    """The interface of an engine or a simulator."""

    problem: Problem

    @property
    def objective(self) -> str:
        """``"latency"`` of one request, or ``"throughput"``: the time between two results."""

    @property
    def limits_weights(self) -> bool:
        """True if weights that exceed a device's limit make a placement infeasible."""

    @property
    def rough_costs(self) -> CostTable | None:
        """Costs without a measurement: the table, or an analytic one; None without either."""

    def evaluate(self, assignment: IntArray) -> Measurement:
        """Evaluate an (n_units,) assignment; a placement that fails is data, not an exception.

        Raises:
            UserError: The assignment is invalid; see ``Problem.check``.
        """

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        """Evaluate (k, n_units) assignments as ``evaluate`` does."""

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        """Evaluate as if no device had a memory limit."""

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """Measure again, as exactly as the backend can, each relative to the first assignment."""

    def infeasibility(self, assignment: IntArray) -> str:
        """Describe why support or memory forbid an assignment; empty if neither does."""

    def excess_shares(self, assignments: IntArray) -> FloatArray:
        """(k,) share of bytes that exceed memory limits, for (k, n_units) assignments."""

    def start_ms(self, assignment: IntArray) -> FloatArray:
        """(n_units,) start of each unit in the backend's schedule, in ms; zeros without one."""

    def cost_table(self) -> CostTable:
        """The costs of the problem's operators and transfers on its devices."""

    def own_choice(self, plugin: str) -> IntArray:
        """The assignment that the engine's ``"HETERO"`` or ``"AUTO"`` chooses.

        Raises:
            UserError: The backend is not an engine.
        """

    def close(self) -> None:
        """Release devices and memory."""
