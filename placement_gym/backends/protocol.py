"""The interface of backends, and the form of their results."""

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
"""Additional penalties of a placement whose bytes are all in excess. Hand-tuned: fewer excess bytes
are better at every size."""


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
        n_transfers: Tensors that change device, one for each destination.
        transfer_bytes: Total size of these tensors.
        memory_bytes: Bytes on each device that count against its limit.
        excess_bytes: Bytes beyond the limits of devices and pools, of a placement that failed.
        held_bytes: Bytes that each device allocated for the placement, weights, tensors and all,
            as its plugin reports it; None where it does not, or the device is not used.
        compile_s: Seconds to compile.
        measure_s: Seconds of the checked first inference, warm-up and measurement.
        error: Why the placement failed, or an empty string.
        cached: Whether the measurement was made for an earlier request.
        repaired: Whether the placement that was proposed did not fit, and this one was evaluated.
        warning: Why the sample is too unreliable for a verdict, or an empty string: the machine was
            busy, or the reference moved.
        interference: Median share of the samples' time that other programs took; 0 if enough were
            calm. Without a ``warning`` it does not change which is faster, but it makes the size of
            the speed-up uncertain.
        parts_ms: Median latencies of parts of a request. Of a model with state ``latency_ms`` is
            that of the whole scenario: about ``prefill_ms``, and for each token ``token_ms``, the
            mean of its run; and ``handover_ms``, to copy the state, where prompts run under one
            placement and tokens under another.
        requests: Requests in flight, where throughput was measured, else None; 0 for a placement
            that failed. Latencies are then the time between two results.
        streams: Inferences that a device ran at a time, for throughput.
        models_ms: Median latency of each model of a union, for throughput: from the start of a
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
        """The latency that rewards see, see ``compute_cost_ms``."""
        return float(compute_cost_ms(self.latency_ms, self.excess_share))

    @property
    def excess_share(self) -> float:
        """Share of its bytes that no device has room for."""
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
        """The measurement of a placement that failed: finite, with a latency of ``PENALTY``.

        Args:
            error: Why it failed.
            reference_ms: Latency of the reference.
            traffic: Transfers and their bytes that the placement needs.
            memory_bytes: Bytes that it needs on each device.
            excess_bytes: How many of them are beyond a limit.
        """
        latency_ms = PENALTY * reference_ms
        transfers, transferred_bytes = traffic
        return cls(
            latency_ms,
            reference_ms,
            latency_ms,
            n_transfers=transfers,
            transfer_bytes=transferred_bytes,
            memory_bytes=memory_bytes,
            excess_bytes=excess_bytes,
            error=error,
        )


def compute_cost_ms(latency_ms: Any, excess_share: Any) -> Any:
    """Add to a latency what bytes beyond a limit cost a learner.

    A placement that fits costs its latency; an infeasible one from 10 reference latencies, where
    no byte is too many, to 100, where all are.

    Args:
        latency_ms: Of a placement, or (k,) of k placements.
        excess_share: Share of the bytes that it holds that are beyond a limit, 0 if it fits.
    """
    return latency_ms * (1.0 + STEEPNESS * excess_share)


class Batch(NamedTuple):
    """The measurements of many placements.

    Attributes:
        speedup: (k,) float64 speed-ups over the reference device.
        feasible: (k,) bool.
        disturbed: (k,) bool, whether other programs left too few samples undisturbed.
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
        ...

    @property
    def limits_weights(self) -> bool:
        """True if weights that exceed a device's limit make a placement infeasible."""
        ...

    @property
    def rough_costs(self) -> CostTable | None:
        """Costs that need no measurement: the table, or an analytic one; None without either."""
        ...

    def evaluate(self, assignment: IntArray) -> Measurement:
        """Evaluate an (n_units,) assignment; a placement that fails is data, not an exception.

        Raises:
            UserError: The assignment is invalid; see ``Problem.check``.
        """
        ...

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        """Evaluate (k, n_units) assignments as ``evaluate`` does."""
        ...

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        """Evaluate as if no device had a memory limit."""
        ...

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """Measure again, as exactly as the backend can, each relative to the first assignment."""
        ...

    def infeasibility(self, assignment: IntArray) -> str:
        """Describe why support or memory forbid an assignment; empty if neither does."""
        ...

    def excess_shares(self, assignments: IntArray) -> FloatArray:
        """(k,) share of the bytes that (k, n_units) assignments hold that no device has room for.

        Nothing is run.
        """
        ...

    def start_ms(self, assignment: IntArray) -> FloatArray:
        """(n_units,) start of each unit in the backend's schedule, in ms; zeros without one."""
        ...

    def cost_table(self) -> CostTable:
        """The costs of the problem's operators and transfers on its devices."""
        ...

    def own_choice(self, plugin: str) -> IntArray:
        """The assignment that the engine's ``"HETERO"`` or ``"AUTO"`` chooses by itself.

        Raises:
            UserError: The backend is not an engine.
        """
        ...

    def close(self) -> None:
        """Release devices and memory."""
        ...
