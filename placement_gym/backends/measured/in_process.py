"""The measured backend in this process: OpenVINO HETERO, timed against a single device."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.backends.failures import EngineFailureError, Kind, check_values, classify
from placement_gym.backends.measured import counters, hetero, timing
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
from placement_gym.backends.measured.outputs import check_expected, compare_outputs, sample_steps
from placement_gym.backends.measured.reporter import Reporter
from placement_gym.backends.measured.throughput import (
    InFlight,
    PipelineCompiler,
    time_stages,
    time_windows,
)
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.backends.measured.tolerance import find_tolerance, measure_rounding
from placement_gym.backends.pipeline.stage import compile_on
from placement_gym.backends.protocol import Measurement
from placement_gym.base.arrays import FloatArray, IntArray
from placement_gym.base.errors import EngineError, UserError
from placement_gym.graph.quantization import without_integer_kernels
from placement_gym.hardware.machine import register
from placement_gym.problem.costs.table import CostTable
from placement_gym.problem.problem import Problem

if TYPE_CHECKING:
    import openvino as ov

Remeasure = Callable[[Sequence[IntArray], TimingProtocol], list[Measurement]]


class MeasuredBackend(MeasuringBackend):
    """Compiles and times placements of one model, in this process.

    Every arm, the single-device reference included, is compiled by HETERO with the same settings
    and run with the same inputs by one synchronous request. Of a model with state a run is the
    scenario of the problem's graph, and outputs are compared after each of its inferences. With
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
        self.stateful = bool(problem.units.graph.scenario)
        graph = problem.units.graph
        self.steps = sample_steps(model, graph.scenario, graph.data_shapes)
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

    def measure_once(self, assignment: IntArray) -> Measurement:
        with self.lock():
            self.check_reference()  # compiled first, so that compile_s is the candidate's
            started = perf_counter()
            try:
                candidate = self.compile_and_check(assignment)
                reference, times = self.time_until_steady(candidate)
            except Exception as error:
                raise classify(error) from error
            measure_s = perf_counter() - started - candidate.compilation.compile_s
            return check_values(summarize(candidate.summarize(), reference, times, measure_s))

    def restart(self) -> None:
        """Drop the compiled reference; the process stays."""
        self.close()

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """Several compilations of each, all interleaved; the first is the others' reference.

        Raises:
            EngineError: One of them does not run; finalists are placements that did.
        """
        if self.remeasure_elsewhere is not None:
            return self.remeasure_elsewhere(assignments, self.protocol)
        with self.lock():
            try:
                rounds = []
                for index in range(self.protocol.final_compiles):
                    rounds.append(self.run_round(assignments, later_first=bool(index % 2)))
                    self.reporter.count(len(rounds))
            except UserError:
                raise
            except Exception as error:
                raise classify(error) from error
        samples = np.stack([times for _, times in rounds], axis=1)
        compilations = [
            join_rounds(found) for found in zip(*(one for one, _ in rounds), strict=True)
        ]
        return [
            mark_busy(check_values(summarize(compilation, samples[0], times)))
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
        times = self.time(arms, self.protocol.final_repeats)
        return [arm.summarize() for arm in arms], times

    def time_until_steady(self, candidate: CompiledPlacement) -> timing.Samples:
        """(2, n_blocks, runs) ms of reference and candidate, of all steady attempts."""
        arms = [self.reference, candidate]
        self.warm_up([candidate])
        attempts: list[timing.Samples] = []
        for _ in range(self.protocol.attempts):
            attempts.append(self.time(arms, self.protocol.repeats))
            steady = [samples for samples in attempts if not timing.is_unsteady(*samples)]
            if steady and timing.noise(*np.concatenate(steady, axis=1)) <= self.protocol.noise:
                break
        if steady:
            return np.concatenate(steady, axis=1)
        return min(attempts, key=lambda samples: timing.noise(*samples))

    def time(self, candidates: Sequence[CompiledPlacement], repeats: int) -> timing.Samples:
        """(n_candidates, n_blocks, runs) ms of inferences or of windows, interleaved."""
        if not self.protocol.in_flight:
            return timing.time_interleaved([one.run for one in candidates], repeats)
        window = self.protocol.window
        running = [one.inferences for one in candidates if isinstance(one.inferences, InFlight)]
        return time_windows([partial(one.time_window, window) for one in running], repeats)

    def warm_up(self, candidates: Sequence[CompiledPlacement]) -> None:
        for _ in range(self.protocol.warmup):
            for candidate in candidates:
                candidate.run()
        for candidate in candidates:
            candidate.forget()

    def compile_and_check(self, assignment: IntArray) -> CompiledPlacement:
        """Compile, run once and compare the outputs with those of the reference device.

        Raises:
            EngineError: OpenVINO refused, failed, or computed something else.
        """
        candidate = self.compile(assignment)
        difference = compare_outputs(candidate.outputs(), self.expected_outputs, self.tolerance)
        if difference:
            raise EngineFailureError(Kind.INFEASIBLE, difference)
        return candidate

    def compile(self, assignment: IntArray) -> CompiledPlacement:
        """Compile a placement, set the inputs and run it once."""
        if self.protocol.in_flight:
            return self.pipelines.compile(assignment, self.protocol.requests, self.protocol.window)
        return compile_candidate(self, assignment)

    @cached_property
    def tolerance(self) -> float:
        devices = self.problem.devices
        return self.stated_tolerance or find_tolerance(self.model, devices, self.measure_rounding)

    def measure_rounding(self) -> float | None:
        """Measure the error of rounding on the reference device; None for a model with state."""
        if self.stateful:
            return None
        self.reporter.beat("measuring what rounding costs")
        device = self.problem.devices[self.problem.reference_device]
        register(self.core, [device])
        whole, exact = (
            compile_on(self.core, model, device, "the model").create_infer_request()
            for model in (self.model, without_integer_kernels(self.model))
        )
        return measure_rounding(whole, exact, self.steps[0])

    @cached_property
    def pipelines(self) -> PipelineCompiler:
        """Compiles what runs with several requests in flight."""
        return PipelineCompiler(self)

    @property
    def reference(self) -> CompiledPlacement:
        """The reference device alone, compiled once for each objective and kept."""
        objective = self.protocol.objective
        if objective not in self.references:
            alone = self.problem.single(self.problem.reference_device)
            self.references[objective] = self.compile(alone)
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

    def check_reference(self) -> None:
        try:
            _ = self.reference, self.expected_outputs
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
                self.warm_up([self.reference])
                samples = self.time([self.reference], self.protocol.repeats)
            self.reference_times_ms[objective] = float(np.median(samples))
        return self.reference_times_ms[objective]

    def measure_operators(self, device: int, prefill: bool = False) -> FloatArray:
        with self.lock():
            return counters.measure_operator_times(self, device, prefill)

    def measure_stages(self, assignments: Sequence[IntArray]) -> FloatArray:
        devices = self.problem.devices
        with self.lock():
            pipelines = [self.pipelines.build(one, devices, 1) for one in assignments]
            return time_stages(pipelines, devices, self.protocol.counter_inferences)

    def own_choice(self, plugin: str) -> IntArray:
        place = hetero.place_by_hetero if plugin == "HETERO" else hetero.place_by_auto
        with self.lock():
            self.reporter.beat("OpenVINO's own choice")
            chosen = place(self.core, self.model, self.problem)
        return np.array([chosen[name] for name in self.problem.units.names], dtype=np.int64)

    def close(self) -> None:
        """Drop the compiled reference and its outputs."""
        self.references.clear()
        self.__dict__.pop("expected_outputs", None)
