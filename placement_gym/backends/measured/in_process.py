"""The measured backend in this process: OpenVINO HETERO, timed against a single device."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.failures import EngineFailureError, Kind, check_values, classify
from placement_gym.backends.measured import counters, hetero
from placement_gym.backends.measured.candidate import (
    Compilation,
    CompiledPlacement,
    compile_candidate,
    join_rounds,
    summarize,
)
from placement_gym.backends.measured.health import mark_busy
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.operator_errors import measure_operator_errors
from placement_gym.backends.measured.outputs import (
    check_expected,
    compare_outputs,
    describe_unsteady,
    error_of_steady,
    find_steady,
)
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.backends.measured.throughput import PipelineCompiler, time_stages
from placement_gym.backends.measured.timing import Arm, Race, warm_up
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.measured.tolerance import find_tolerance, measure_rounding
from placement_gym.backends.pipeline.stage import compile_on
from placement_gym.backends.protocol import Measurement
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import EngineError, UserError
from placement_gym.graph.quantization import without_integer_kernels
from placement_gym.hardware.machine import register
from placement_gym.models.random_operators import find_random
from placement_gym.models.shared_constants import separate_constants, shared_constants
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem

if TYPE_CHECKING:
    import openvino as ov

Remeasure = Callable[[Sequence[IntArray], TimingProtocol], list[Measurement]]


class MeasuredBackend(MeasuringBackend):
    """Compiles and times placements of one model, in this process.

    Every arm, the single-device reference included, is compiled by HETERO with the same settings
    and run with the same inputs by one synchronous request. A run is the request of the problem's
    graph, and outputs are compared after each of its inferences. With
    objective ``"throughput"`` placements run as pipelines instead; see ``throughput``.

    Args:
        core: Knows the devices of ``problem``.
        model: As ``models.load`` returns it; not changed.
        problem: Units of ``model``, and devices.
        split: See ``placement_gym.compile_model``.
        protocol: How often things run.
        remeasure_elsewhere: Measures finalists in a new process; None measures them in this one.
        reporter: Receives every step.
        tolerance: See ``MeasuredEnv``.

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
        remeasure_elsewhere: Remeasure | None = None,
        reporter: Reporter | None = None,
        tolerance: float | None = None,
    ) -> None:
        alias = hetero.uses_aliases(split, problem.devices)
        super().__init__(problem, alias, protocol or TimingProtocol())
        self.core = core
        self.model = model
        self.remeasure_elsewhere = remeasure_elsewhere
        self.reporter = reporter or Reporter()
        self.stated_tolerance = tolerance
        self.request = problem.units.graph.request
        self.steps = self.request.sample_inputs(model)
        self.references: dict[str, CompiledPlacement] = {}
        self.reference_times_ms: dict[str, float] = {}
        self.owner = os.getpid()
        register(core, problem.devices)

    def __getstate__(self) -> Any:
        """See ``pickle``.

        Raises:
            UserError: Always: OpenVINO runs in this process.
        """
        raise UserError(
            "an environment made with isolate=False measures in this process and cannot be "
            "pickled: make it with isolate=True, or in the other process"
        )

    def lock(self) -> AbstractContextManager[None]:
        """The measurement lock.

        Raises:
            EngineError: This process is a fork of the one that made the backend.
        """
        if os.getpid() != self.owner:
            raise EngineError(
                f"this process was forked from {self.owner}, which made the environment, and "
                "OpenVINO's threads do not survive a fork: make the environment in the "
                "process that uses it, or start that one by 'spawn'"
            )
        return measurement_lock(self.reporter)

    def cost_table(self) -> CostTable:
        from placement_gym.backends.measured.kept_profiles import load_or_measure

        return load_or_measure(self)

    def measure_once(self, assignment: IntArray, rival: float = 0.0) -> Measurement:
        with self.lock():
            self.check_reference()  # compiled first, so that compile_s is the candidate's
            reference_placement = self.problem.single(self.problem.reference_device)
            try:
                # The reference needs no second copy: its speed-up over itself is 1 by definition.
                is_reference = np.array_equal(assignment, reference_placement)
                candidate = self.reference if is_reference else self.compile_and_check(assignment)
                return self.time_candidate(candidate, rival)
            except UserError:
                raise
            except Exception as error:
                raise classify(error) from error

    def time_candidate(self, candidate: CompiledPlacement, rival: float) -> Measurement:
        """Time a compiled placement alongside the reference, as exactly as the protocol asks."""
        start_s, race, noise_goal = perf_counter(), Race(2), self.protocol.noise
        race.run(
            self.warm_up([self.reference, candidate]),
            self.protocol.repeats,
            lambda: race.noise(1) <= noise_goal or race.is_slower(1, rival),
        )
        measure_s = perf_counter() - start_s
        return check_values(summarize(candidate.summarize(), race, 1, self.problem, measure_s))

    def with_problem(self, problem: Problem) -> MeasuredBackend:
        split = "auto" if self.alias else "hetero"
        return MeasuredBackend(
            self.core, self.model, problem, split, self.protocol, tolerance=self.tolerance
        )

    def restart(self) -> None:
        """Drop the compiled reference; the process stays."""
        self.close()

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """A race over several compilations; the first is the others' reference.

        Each round compiles every placement that is still in the race. One that is clearly slower
        than the fastest drops out; the race ends when the noise of the others allows a verdict.

        Raises:
            EngineError: One of them does not run; finalists are placements that did.
        """
        if self.remeasure_elsewhere is not None:
            return self.remeasure_elsewhere(assignments, self.protocol)
        race, protocol = Race(len(assignments)), self.protocol
        compiled: list[list[Compilation]] = [[] for _ in assignments]
        with self.lock():
            try:
                while len(race.compilations) < protocol.final_compiles:
                    self.run_round(assignments, race, compiled)
                    self.reporter.count(len(race.compilations))
                    race.drop_slower(protocol.noise)
                    if race.is_decided(protocol.noise, protocol.final_noise):
                        break
            except UserError:
                raise
            except Exception as error:
                raise classify(error) from error
        measurements = [
            summarize(join_rounds(rounds), race, arm, self.problem)
            for arm, rounds in enumerate(compiled)
        ]
        return [mark_busy(check_values(measurement)) for measurement in measurements]

    def run_round(
        self, assignments: Sequence[IntArray], race: Race, compiled: Sequence[list[Compilation]]
    ) -> None:
        """Compile and time the placements that are still in a race, and release them afterwards.

        The order of compilation and of warming up changes each time, so that it favours none.
        """
        step = -1 if len(race.compilations) % 2 else 1
        arms = [self.compile_and_check(assignments[arm]) for arm in race.live[::step]][::step]
        race.run(self.warm_up(arms[::step])[::step], self.protocol.final_rounds)
        for number, arm in zip(race.live, arms, strict=True):
            compiled[number].append(arm.summarize())

    def warm_up(self, candidates: Sequence[CompiledPlacement]) -> list[Arm]:
        """Warm placements up; returns a function for each that times one sample."""
        arms = [warm_up(candidate.run, self.protocol.warmup) for candidate in candidates]
        for candidate in candidates:
            candidate.forget()
        timers = [candidate.inferences.find_timer() for candidate in candidates]
        return [timer or arm for timer, arm in zip(timers, arms, strict=True)]

    def compile_and_check(self, assignment: IntArray) -> CompiledPlacement:
        """Compile, run once and compare the outputs with those of the reference device.

        Raises:
            EngineError: OpenVINO refused, failed, or computed something else.
            UserError: The reference device computes the model wrong.
        """
        candidate = self.compile(assignment)
        outputs = candidate.outputs()
        difference = compare_outputs(outputs, self.expected_outputs, self.tolerance, self.steady)
        if difference:
            self.check_shared_constants(outputs)
            raise EngineFailureError(Kind.INFEASIBLE, difference)
        return candidate

    def output_error(self, assignment: IntArray) -> float:
        with self.lock():
            self.check_reference()
            try:
                outputs = self.compile(assignment).outputs()
            except Exception as error:
                raise classify(error) from error
        difference = error_of_steady(outputs, self.expected_outputs, self.steady)
        if difference > self.tolerance:
            self.check_shared_constants(outputs)
        return difference

    def operator_errors(self, device: int, selected: IntArray) -> FloatArray:
        if not self.request.separable:
            return np.full(len(selected), np.nan)
        with self.lock():
            try:
                return measure_operator_errors(self, device, selected.astype(np.bool_))
            except Exception as error:
                raise classify(error) from error

    def compile(self, assignment: IntArray) -> CompiledPlacement:
        """Compile a placement as the objective runs it, set the inputs and run it once."""
        if self.protocol.goal.serial:
            return compile_candidate(self, assignment)
        return self.pipelines.compile(assignment, self.protocol.requests, self.protocol.window)

    @cached_property
    def tolerance(self) -> float:
        devices = self.problem.devices
        return self.stated_tolerance or find_tolerance(self.model, devices, self.measure_rounding)

    def measure_rounding(self) -> float | None:
        """Measure the error of rounding on the reference device; None where that cannot be done."""
        if not self.request.separable:
            return None
        self.reporter.beat("measuring what rounding costs")
        device = self.problem.devices[self.problem.reference_device]
        register(self.core, [device])
        request, exact = (
            compile_on(self.core, model, device, "the model").create_infer_request()
            for model in (self.model, without_integer_kernels(self.model))
        )
        return measure_rounding(request, exact, self.steps[0])

    @cached_property
    def pipelines(self) -> PipelineCompiler:
        """The compiler of placements that run with several requests in flight."""
        return PipelineCompiler(self)

    @property
    def reference(self) -> CompiledPlacement:
        """The reference device alone, compiled once for each objective and kept."""
        objective = self.protocol.objective
        if objective not in self.references:
            placement = self.problem.single(self.problem.reference_device)
            self.references[objective] = self.compile(placement)
        return self.references[objective]

    @cached_property
    def expected_outputs(self) -> list[NDArray[Any]]:
        """The outputs of the reference device, which every placement has to reproduce.

        Raises:
            UserError: They are not finite, so that nothing can be compared with them.
        """
        outputs = self.reference.outputs()
        check_expected(outputs)
        return outputs

    @cached_property
    def steady(self) -> list[bool]:
        """(n_outputs,) whether the reference device computes an output again."""
        expected = self.expected_outputs
        self.reference.run()
        steady = find_steady(self.reference.outputs(), expected, self.tolerance)
        if all(steady):
            return steady
        # A generator with a seed continues its sequence from run to run and restarts it in each
        # compilation, so that a second compilation tells it from a generator without a seed.
        outputs = self.compile(self.problem.single(self.problem.reference_device)).outputs()
        steady = find_steady(outputs, expected, self.tolerance)
        if not all(steady):
            warnings.warn(describe_unsteady(steady, find_random(self.model)), stacklevel=2)
        return steady

    def check_shared_constants(self, outputs: list[NDArray[Any]]) -> None:
        """Compare the reference device with itself on a copy of the model without shared constants.

        Args:
            outputs: Those of a placement that differ from the reference's.

        Raises:
            UserError: The outputs differ, so that placements cannot be compared with them.
        """
        if self.separate_outputs is None:
            return
        error = error_of_steady(self.separate_outputs, self.expected_outputs, self.steady)
        if error <= self.tolerance:
            return
        reference = self.problem.device_names[self.problem.reference_device]
        agrees = error_of_steady(outputs, self.separate_outputs, self.steady) <= self.tolerance
        raise UserError(
            f"{reference} computes the model wrong, and placements cannot be compared with it: its "
            f"outputs change by {error:.1e} relative if operators that read one constant, such as "
            f"{shared_constants(self.model)[0]!r}, each have their own"
            f"{', and those of the placement agree with the latter' if agrees else ''}. Save the "
            "model with separate constants, and use that file: ov.save_model("
            "placement_gym.models.separate_constants(ov.Core().read_model(FILE)), NEW_FILE)"
        )

    @cached_property
    def separate_outputs(self) -> list[NDArray[Any]] | None:
        """The reference device's outputs on a model without shared constants.

        None if the model shares none, or if the copy does not run.
        """
        if not shared_constants(self.model):
            return None
        self.reporter.beat("computing with separate constants")
        device = self.problem.devices[self.problem.reference_device]
        register(self.core, [device])
        separate = separate_constants(self.model)
        with suppress(RuntimeError, EngineError):
            request = compile_on(self.core, separate, device, "a copy").create_infer_request()
            return self.request.start(request, self.steps, self.reporter.beat).outputs()
        return None

    def check_reference(self) -> None:
        try:
            _ = self.reference, self.expected_outputs, self.steady
        except UserError:
            raise
        except Exception as error:
            failure = classify(error)
            if not failure.policy.is_result:
                raise failure from error
            raise EngineError(f"the reference device does not run: {failure}") from error

    @property
    def reference_ms(self) -> float:
        objective = self.protocol.objective
        if objective not in self.reference_times_ms:
            with self.lock():
                self.check_reference()
                measured = self.time_candidate(self.reference, rival=0.0)
            self.reference_times_ms[objective] = measured.reference_ms
        return self.reference_times_ms[objective]

    def measure_operators(self, device: int, prefill: bool = False) -> FloatArray:
        with self.lock():
            return counters.measure_operator_times(self, device, prefill)

    def measure_stages(self, assignments: Sequence[IntArray]) -> FloatArray:
        devices = self.problem.devices
        with self.lock():
            pipelines = [self.pipelines.build(assignment, devices, 1) for assignment in assignments]
            return time_stages(pipelines, devices, self.protocol.counter_inferences)

    def own_choice(self, plugin: str) -> IntArray:
        place = hetero.place_by_hetero if plugin == "HETERO" else hetero.place_by_auto
        with self.lock():
            self.reporter.beat("OpenVINO's own choice")
            device_of = place(self.core, self.model, self.problem)
        return np.array([device_of[name] for name in self.problem.units.names], dtype=np.int64)

    def close(self) -> None:
        """Drop the compiled reference and its outputs."""
        self.references.clear()
        for name in ("expected_outputs", "steady", "separate_outputs"):
            self.__dict__.pop(name, None)
