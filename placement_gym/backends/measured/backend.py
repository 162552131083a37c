"""The measured backend: OpenVINO HETERO, timed against a single device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.measured import hetero, own_choice, timing
from placement_gym.backends.measured import profile as profiles
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.backends.measured.outputs import (
    finite,
    relative_error,
    sample_inputs,
    tolerance,
)
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.protocol import Batch, Measurement
from placement_gym.costs.table import CostTable
from placement_gym.devices import register
from placement_gym.errors import EngineError, UserError
from placement_gym.problem import Problem

if TYPE_CHECKING:
    import openvino as ov


@dataclass(frozen=True)
class Compilation:
    """What compiling a placement made, and how long it took."""

    n_submodels: int
    n_submodels_expected: int
    n_transfers: int
    transfer_bytes: int
    memory_bytes: tuple[int, ...]
    compile_s: float


@dataclass(frozen=True)
class Candidate:
    """A compiled placement, ready to run."""

    request: ov.InferRequest
    compilation: Compilation

    def run(self) -> None:
        self.request.infer()

    def outputs(self) -> list[NDArray[Any]]:
        return [tensor.data.copy() for tensor in self.request.output_tensors]


class MeasuredBackend:
    """Compiles and times placements of one model.

    Every arm, the single-device reference included, is compiled by HETERO with the same settings
    and run with the same inputs by one synchronous request.

    Args:
        core: Knows the devices of ``problem``.
        model: As ``models.load`` returns it; not changed.
        problem: Units of ``model``, and devices.
        split: See ``hetero.compile_model``.
        protocol: How often things run.

    Raises:
        ValueError: Unknown split, or one that the devices do not allow.
    """

    def __init__(
        self,
        core: ov.Core,
        model: ov.Model,
        problem: Problem,
        split: str = "auto",
        protocol: TimingProtocol | None = None,
    ) -> None:
        self.core = core
        self.model = model
        self.problem = problem
        self.split = split
        self.alias = hetero.uses_aliases(split, problem.devices)
        self.protocol = protocol or TimingProtocol()
        self.tolerance = tolerance(problem.devices)
        self.inputs = sample_inputs(model)
        register(core, problem.devices)

    @cached_property
    def reference(self) -> Candidate:
        """The reference device alone, compiled once and kept.

        Raises:
            ValueError: It gives values that are not finite, so that nothing could be compared.
        """
        reference = self.start(self.problem.single(self.problem.reference_device))
        if not finite(reference.outputs()):
            raise UserError(
                "the model gives NaN or infinite outputs on inputs in [0, 1): placements cannot "
                "be checked against it"
            )
        return reference

    @cached_property
    def expected(self) -> list[NDArray[Any]]:
        """What the reference device computes, that every placement has to reproduce."""
        self.reference.run()
        return self.reference.outputs()

    @cached_property
    def reference_ms(self) -> float:
        """Median latency of the reference device, timed alone when first asked for."""
        with measurement_lock():
            self.warm_up([self.reference])
            return float(np.median(timing.interleaved([self.reference.run], self.protocol.repeats)))

    def evaluate(self, assignment: IntArray) -> Measurement:
        """Compile and time a placement beside the reference; see ``Backend.evaluate``."""
        error = self.infeasibility(assignment)
        if error:
            return self.failed(error, assignment)
        return self.evaluate_ignoring_limits(assignment)

    def failed(self, error: str, assignment: IntArray) -> Measurement:
        """What is known of a placement without running it."""
        traffic, held = self.problem.traffic(assignment), self.problem.memory_bytes(assignment)
        return Measurement.failed(error, self.reference_ms, traffic, tuple(held.tolist()))

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        """See ``Backend.evaluate_batch``."""
        return Batch.of(self.evaluate, assignments)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        """As ``evaluate``, memory limits ignored."""
        with measurement_lock():
            self.expected  # noqa: B018  compiled first, so that compile_s is the candidate's
            started = perf_counter()
            try:
                candidate = self.checked(assignment)
                reference, times = self.time_until_steady(candidate)
            except RuntimeError as error:
                return self.failed(hetero.last_line(error), assignment)
            measure_s = perf_counter() - started - candidate.compilation.compile_s
            return measurement(candidate.compilation, reference, times, measure_s)

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """Several compilations of each, all interleaved; the first is the others' reference.

        Raises:
            RuntimeError: One of them does not run; finalists are placements that did.
        """
        with measurement_lock():
            rounds = [
                self.one_round(assignments, later_first=bool(index % 2))
                for index in range(self.protocol.final_compiles)
            ]
        samples = np.stack([times for _, times in rounds], axis=1)
        made = rounds[-1][0]
        return [
            measurement(compilation, samples[0], times)
            for compilation, times in zip(made, samples, strict=True)
        ]

    def one_round(
        self, assignments: Sequence[IntArray], later_first: bool
    ) -> tuple[list[Compilation], timing.Samples]:
        """Compile and time every placement; their memory is free again afterwards.

        ``later_first`` turns the order of compilation round, so that it favours no placement.
        """
        step = -1 if later_first else 1
        arms = [self.checked(assignment) for assignment in assignments[::step]][::step]
        self.warm_up(arms)
        times = timing.interleaved([arm.run for arm in arms], self.protocol.final_repeats)
        return [arm.compilation for arm in arms], times

    def time_until_steady(self, candidate: Candidate) -> timing.Samples:
        """(2, n_blocks, runs) ms of reference and candidate, of all steady attempts."""
        arms = [self.reference.run, candidate.run]
        self.warm_up([candidate])
        attempts: list[timing.Samples] = []
        for _ in range(self.protocol.attempts):
            attempts.append(timing.interleaved(arms, self.protocol.repeats))
            steady = [samples for samples in attempts if not timing.unsteady(*samples)]
            if steady and timing.noise(*np.concatenate(steady, axis=1)) <= self.protocol.noise:
                break
        if steady:
            return np.concatenate(steady, axis=1)
        return min(attempts, key=lambda samples: timing.noise(*samples))

    def warm_up(self, candidates: Sequence[Candidate]) -> None:
        for _ in range(self.protocol.warmup):
            for candidate in candidates:
                candidate.run()

    def checked(self, assignment: IntArray) -> Candidate:
        """Compile, run once and compare.

        Raises:
            RuntimeError: OpenVINO refused, failed, or computed something else.
        """
        candidate = self.start(assignment)
        error = relative_error(candidate.outputs(), self.expected)
        if not error <= self.tolerance:
            raise EngineError(
                f"outputs differ from the reference by {error:.1e} relative, "
                f"more than {self.tolerance:.0e}"
            )
        return candidate

    def start(self, assignment: IntArray) -> Candidate:
        """Compile, set the inputs and run once."""
        units = self.problem.units
        started = perf_counter()
        split = hetero.Split.of(
            units.graph, assignment[units.of_operator], self.problem.devices, self.alias
        )
        compiled = hetero.compile_split(self.core, self.model, units.graph, split)
        compile_s = perf_counter() - started
        request = compiled.create_infer_request()
        request.infer(dict(enumerate(self.inputs)))
        made = Compilation(
            hetero.n_submodels(compiled),
            split.n_submodels,
            *self.problem.traffic(assignment),
            tuple(self.problem.memory_bytes(assignment).tolist()),
            compile_s,
        )
        return Candidate(request, made)

    def infeasibility(self, assignment: IntArray) -> str:
        """See ``Backend.infeasibility``."""
        return self.problem.infeasibility(assignment)

    def start_ms(self, assignment: IntArray) -> FloatArray:
        """Not known; see ``Backend.start_ms``."""
        return np.zeros(len(assignment))

    def own_choice(self, plugin: str) -> IntArray:
        """What OpenVINO's ``"HETERO"`` or ``"AUTO"`` places by itself; see ``Backend``."""
        own = own_choice.operators if plugin == "HETERO" else own_choice.device
        with measurement_lock():
            chosen = own(self.core, self.model, self.problem)
        return np.array([chosen[name] for name in self.problem.units.names], dtype=np.int64)

    def under(self, protocol: TimingProtocol) -> MeasuredBackend:
        """The same backend with another protocol."""
        return MeasuredBackend(self.core, self.model, self.problem, self.split, protocol)

    def cost_table(self) -> CostTable:
        """This machine's profile of the problem, measured once and kept; see ``profile``."""
        return profiles.cached(self)

    def close(self) -> None:
        """Drop the compiled reference."""
        self.__dict__.pop("reference", None)


def measurement(
    made: Compilation, reference: timing.Samples, times: timing.Samples, measure_s: float = 0.0
) -> Measurement:
    return Measurement(
        latency_ms=float(np.median(times)),
        reference_ms=float(np.median(reference)),
        latency_p90_ms=float(np.percentile(times, 90)),
        noise=timing.noise(reference, times),
        measure_s=measure_s,
        **asdict(made),
    )
