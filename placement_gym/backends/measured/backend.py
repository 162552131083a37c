"""The measured backend: OpenVINO HETERO, timed against a single device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.arrays import FloatArray, IntArray
from placement_gym.backends.measured import hetero, own_choice, timing
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.backends.measured.outputs import (
    all_finite,
    relative_error,
    sample_inputs,
    tolerance,
)
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.protocol import Batch, Measurement
from placement_gym.costs.analytic import analytic
from placement_gym.costs.table import CostTable
from placement_gym.devices import register
from placement_gym.errors import EngineError, UserError
from placement_gym.problem import Problem

if TYPE_CHECKING:
    import openvino as ov


@dataclass(frozen=True)
class Compilation:
    """Facts about a compiled placement, and the seconds that compiling took."""

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
        split: See ``placement_gym.compile_model``.
        protocol: How often things run.
        make_costs: Profiles the backend when its cost table is first needed.

    Raises:
        UserError: Unknown split, or one that the devices do not allow.
    """

    def __init__(
        self,
        core: ov.Core,
        model: ov.Model,
        problem: Problem,
        split: str = "auto",
        protocol: TimingProtocol | None = None,
        make_costs: Callable[[MeasuredBackend], CostTable] | None = None,
    ) -> None:
        self.core = core
        self.model = model
        self.problem = problem
        self.split = split
        self.alias = hetero.uses_aliases(split, problem.devices)
        self.protocol = protocol or TimingProtocol()
        self.make_costs = make_costs
        self.tolerance = tolerance(problem.devices)
        self.inputs = sample_inputs(model)
        register(core, problem.devices)

    @property
    def limits_weights(self) -> bool:
        """See ``Backend.limits_weights``."""
        return self.problem.limited

    @cached_property
    def rough_costs(self) -> CostTable | None:
        """The analytic costs, if the devices are of known kinds; see ``Backend.rough_costs``."""
        with suppress(UserError):
            return analytic(self.problem.units.graph, self.problem.devices)
        return None

    def evaluate(self, assignment: IntArray) -> Measurement:
        """Compile and time a placement beside the reference; see ``Backend.evaluate``."""
        error = self.infeasibility(assignment)
        if error:
            return self.failure(error, assignment)
        return self.evaluate_ignoring_limits(assignment)

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        """See ``Backend.evaluate_batch``."""
        return Batch.of(self.evaluate, assignments)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        """As ``evaluate``, memory limits ignored."""
        with measurement_lock():
            self.check_reference()  # compiled first, so that compile_s is the candidate's
            started = perf_counter()
            try:
                candidate = self.compile_and_check(assignment)
                reference, times = self.time_until_steady(candidate)
            except RuntimeError as error:
                return self.failure(hetero.last_line(error), assignment)
            measure_s = perf_counter() - started - candidate.compilation.compile_s
            return summarize(candidate.compilation, reference, times, measure_s)

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """Several compilations of each, all interleaved; the first is the others' reference.

        Raises:
            RuntimeError: One of them does not run; finalists are placements that did.
        """
        with measurement_lock():
            rounds = [
                self.run_round(assignments, later_first=bool(index % 2))
                for index in range(self.protocol.final_compiles)
            ]
        samples = np.stack([times for _, times in rounds], axis=1)
        compilations = rounds[-1][0]
        return [
            summarize(compilation, samples[0], times)
            for compilation, times in zip(compilations, samples, strict=True)
        ]

    def run_round(
        self, assignments: Sequence[IntArray], later_first: bool
    ) -> tuple[list[Compilation], timing.Samples]:
        """Compile and time every placement; their memory is free again afterwards.

        ``later_first`` reverses the order of compilation, so that it favours no placement.
        """
        step = -1 if later_first else 1
        arms = [self.compile_and_check(assignment) for assignment in assignments[::step]][::step]
        self.warm_up(arms)
        times = timing.time_interleaved([arm.run for arm in arms], self.protocol.final_repeats)
        return [arm.compilation for arm in arms], times

    def time_until_steady(self, candidate: Candidate) -> timing.Samples:
        """(2, n_blocks, runs) ms of reference and candidate, of all steady attempts."""
        arms = [self.reference.run, candidate.run]
        self.warm_up([candidate])
        attempts: list[timing.Samples] = []
        for _ in range(self.protocol.attempts):
            attempts.append(timing.time_interleaved(arms, self.protocol.repeats))
            steady = [samples for samples in attempts if not timing.is_unsteady(*samples)]
            if steady and timing.noise(*np.concatenate(steady, axis=1)) <= self.protocol.noise:
                break
        if steady:
            return np.concatenate(steady, axis=1)
        return min(attempts, key=lambda samples: timing.noise(*samples))

    def warm_up(self, candidates: Sequence[Candidate]) -> None:
        for _ in range(self.protocol.warmup):
            for candidate in candidates:
                candidate.run()

    def compile_and_check(self, assignment: IntArray) -> Candidate:
        """Compile, run once and compare the outputs with those of the reference device.

        Raises:
            RuntimeError: OpenVINO refused, failed, or computed something else.
        """
        candidate = self.compile(assignment)
        error = relative_error(candidate.outputs(), self.expected_outputs)
        if not error <= self.tolerance:
            raise EngineError(
                f"outputs differ from the reference by {error:.1e} relative, "
                f"more than {self.tolerance:.0e}"
            )
        return candidate

    def compile(self, assignment: IntArray) -> Candidate:
        """Compile a placement, set the inputs and run it once."""
        units = self.problem.units
        started = perf_counter()
        partition = hetero.Partition.of(
            units.graph, assignment[units.of_operator], self.problem.devices, self.alias
        )
        compiled = hetero.compile_partition(self.core, self.model, units.graph, partition)
        compile_s = perf_counter() - started
        request = compiled.create_infer_request()
        request.infer(dict(enumerate(self.inputs)))
        compilation = Compilation(
            hetero.count_submodels(compiled),
            partition.n_submodels,
            *self.problem.traffic(assignment),
            tuple(self.problem.memory_bytes(assignment).tolist()),
            compile_s,
        )
        return Candidate(request, compilation)

    @cached_property
    def reference(self) -> Candidate:
        """The reference device alone, compiled once and kept."""
        return self.compile(self.problem.single(self.problem.reference_device))

    @cached_property
    def expected_outputs(self) -> list[NDArray[Any]]:
        """The outputs of the reference device, which every placement has to reproduce.

        Raises:
            UserError: They are not finite, so that nothing can be compared with them.
        """
        outputs = self.reference.outputs()
        if not all_finite(outputs):
            raise UserError(
                "on the reference device the model computes NaN or infinite outputs, so no "
                "placement of it can be checked. Floating-point inputs are drawn from [0, 1), "
                "integers are 0 or 1, and inputs with 'mask' in their name are all ones: give an "
                "attention mask such a name, or repair the model"
            )
        if not any(output.any() for output in outputs):
            warnings.warn(
                "the model's outputs are all zero on the sample inputs: comparing the outputs of "
                "placements proves nothing",
                stacklevel=2,
            )
        return outputs

    def check_reference(self) -> None:
        """Compile the reference device unless that is done, and check its outputs.

        Raises:
            UserError: They are not finite.
        """
        _ = self.expected_outputs

    @cached_property
    def reference_ms(self) -> float:
        """Median latency of the reference device, timed alone when first needed."""
        with measurement_lock():
            self.warm_up([self.reference])
            samples = timing.time_interleaved([self.reference.run], self.protocol.repeats)
            return float(np.median(samples))

    def failure(self, error: str, assignment: IntArray) -> Measurement:
        """The measurement of a placement that was not run or failed."""
        traffic, held = self.problem.traffic(assignment), self.problem.memory_bytes(assignment)
        return Measurement.failed(error, self.reference_ms, traffic, tuple(held.tolist()))

    def infeasibility(self, assignment: IntArray) -> str:
        """See ``Backend.infeasibility``."""
        return self.problem.infeasibility(assignment)

    def start_ms(self, assignment: IntArray) -> FloatArray:
        """Not known; see ``Backend.start_ms``."""
        return np.zeros(len(assignment))

    def own_choice(self, plugin: str) -> IntArray:
        """The placement that OpenVINO's ``"HETERO"`` or ``"AUTO"`` chooses; see ``Backend``."""
        place = own_choice.place_by_hetero if plugin == "HETERO" else own_choice.place_by_auto
        with measurement_lock():
            chosen = place(self.core, self.model, self.problem)
        return np.array([chosen[name] for name in self.problem.units.names], dtype=np.int64)

    def with_protocol(self, protocol: TimingProtocol) -> MeasuredBackend:
        """A backend of the same problem with another protocol; close both."""
        return MeasuredBackend(
            self.core, self.model, self.problem, self.split, protocol, self.make_costs
        )

    def cost_table(self) -> CostTable:
        """This machine's profile of the problem; see ``profile.load_or_measure``.

        Raises:
            UserError: The backend was made without ``make_costs``.
        """
        if self.make_costs is None:
            raise UserError("this backend has no costs: make it by build_measured_backend")
        return self.make_costs(self)

    def close(self) -> None:
        """Drop the compiled reference."""
        self.__dict__.pop("reference", None)


def summarize(
    compilation: Compilation,
    reference: timing.Samples,
    times: timing.Samples,
    measure_s: float = 0.0,
) -> Measurement:
    """The measurement that the samples of a placement and its reference amount to."""
    return Measurement(
        latency_ms=float(np.median(times)),
        reference_ms=float(np.median(reference)),
        latency_p90_ms=float(np.percentile(times, 90)),
        noise=timing.noise(reference, times),
        measure_s=measure_s,
        **asdict(compilation),
    )
