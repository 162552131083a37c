"""The worker compiles placements with OpenVINO HETERO and times them against one device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import proxy

import numpy as np

from placement_gym.backends import EngineFailureError, Measurement, check_values, classify
from placement_gym.backends.measured import counters, hetero
from placement_gym.backends.measured.candidate import (
    Compilation,
    CompiledPlacement,
    HostedModel,
    compile_candidate,
    join_rounds,
    summarize,
)
from placement_gym.backends.measured.engine import Reporter
from placement_gym.backends.measured.interference import Session
from placement_gym.backends.measured.lock import measurement_lock
from placement_gym.backends.measured.reference_outputs import ReferenceOutputs
from placement_gym.backends.measured.timing import Arm, Race, warm_up
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.base import EngineError, FloatArray, IntArray, UserError
from placement_gym.hardware import register, usable_cores
from placement_gym.problem import Problem
from placement_gym.workloads import draw

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.backends.measured.throughput import ThroughputCompiler

FINAL_WARMUP = 3
"""Largest number of inferences before a finalist's first counted one, and the reference's."""


class Worker:
    """Compiles and times placements of one model, in this process.

    All placements have the same settings and inputs. A run is the request (``Request``) of the
    problem's graph, on one synchronous infer request. With objective ``"throughput"`` several are
    in flight; see ``throughput``. ``MeasuredBackend`` documents its questions, which have the same
    names here.
    """

    def __init__(
        self,
        core: ov.Core,
        model: ov.Model,
        problem: Problem,
        alias: bool,
        reporter: Reporter | None = None,
        tolerance: float | None = None,
    ) -> None:
        request = problem.units.graph.request
        samples = [draw(request, model, number) for number in range(request.n_samples)]
        self.host = HostedModel(core, model, problem, alias, samples, reporter or Reporter())
        self.problem, self.protocol = problem, TimingProtocol()
        self.references: dict[str, CompiledPlacement] = {}
        self.reference_arms: dict[str, Arm] = {}
        # A reference cycle would keep compiled models until Python collects garbage.
        itself = proxy(self)
        self.reference_outputs = ReferenceOutputs(
            self.host,
            lambda: itself.reference,
            lambda: itself.compile(itself.reference_placement),
            tolerance,
        )
        self.owner = os.getpid()
        register(core, problem.devices)

    def __getstate__(self) -> Any:
        """Refuse to pickle: OpenVINO runs in this process."""
        raise UserError(
            "an environment made with isolate=False measures in this process and cannot be "
            "pickled: make it with isolate=True, or in the other process"
        )

    def ask(self, question: str, protocol: TimingProtocol, *arguments: Any) -> Any:
        """The value of a property, or the result of a method, while nothing else measures."""
        with self.lock():
            self.protocol = protocol
            attribute = getattr(self, question)
            return attribute(*arguments) if callable(attribute) else attribute

    @contextmanager
    def lock(self) -> Iterator[None]:
        """The measurement lock, unless this process is a fork of the one that made the worker."""
        if os.getpid() != self.owner:
            raise EngineError(
                f"this process was forked from {self.owner}, which made the environment, and "
                "OpenVINO's threads do not survive a fork: make the environment in the "
                "process that uses it, or start that one by 'spawn'"
            )
        with measurement_lock(self.host.reporter):
            yield

    def measure_once(self, assignment: IntArray, rival: float = 0.0) -> Measurement:
        self.check_reference()  # compiled first: compile_s is the candidate's alone
        with classified_failures():
            # No second copy of the reference: its speed-up is 1 by definition.
            is_reference = np.array_equal(assignment, self.reference_placement)
            candidate = self.reference if is_reference else self.compile_and_check(assignment)
            return self.time_candidate(candidate, rival)

    def time_candidate(self, candidate: CompiledPlacement, rival: float) -> Measurement:
        """Time a compiled placement alongside the reference."""
        start_s, race, noise_goal = perf_counter(), Race(2), self.protocol.noise
        race.run(
            [self.reference_arm, *self.warm_up([candidate], self.protocol.warmup)],
            self.protocol.repeats,
            lambda: race.noise(1) <= noise_goal or race.is_slower(1, rival),
        )
        measure_s = perf_counter() - start_s
        return check_values(summarize(candidate.summarize(), race, 1, self.problem, measure_s))

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """Race placements over several compilations; the first is the reference of the others.

        Each round compiles every live placement. Placements that are clearly slower than the
        fastest drop out. The race ends when noise allows a verdict, or after ``final_s``.
        """
        race, protocol = Race(len(assignments)), self.protocol
        compiled: list[list[Compilation]] = [[] for _ in assignments]
        measured: list[Measurement] = []
        start_s, most_rounds = perf_counter(), protocol.final_compiles

        def report(part_of_round: float = 0.0) -> None:
            self.host.reporter.on_round(len(race.compilations) + part_of_round, measured)

        with classified_failures():
            while len(race.compilations) < most_rounds:
                self.run_round(assignments, race, compiled, report)
                measured = self.summarize_race(race, compiled)
                report()
                race.drop_slower(protocol.noise)
                if race.is_decided(protocol.noise, protocol.final_noise):
                    break
                round_s = (perf_counter() - start_s) / len(race.compilations)
                most_rounds = protocol.most_rounds(round_s)
        return measured

    def summarize_race(
        self, race: Race, compiled: Sequence[list[Compilation]]
    ) -> list[Measurement]:
        """The measurement of each placement by the rounds so far."""
        measurements = [
            summarize(join_rounds(rounds), race, arm, self.problem)
            for arm, rounds in enumerate(compiled)
        ]
        # A new session each, so that warnings do not depend on the others.
        return [Session().keep(check_values(measurement)) for measurement in measurements]

    def run_round(
        self,
        assignments: Sequence[IntArray],
        race: Race,
        compiled: Sequence[list[Compilation]],
        report: Callable[[float], object],
    ) -> None:
        """Compile and time the live placements, every other round in reverse order.

        After each compilation ``report`` gets the part of the round that is done.
        """
        step = -1 if len(race.compilations) % 2 else 1
        order = race.live[::step]
        candidates = []
        for candidate in self.compile_all([assignments[arm] for arm in order]):
            candidates.append(candidate)
            report(len(candidates) / (len(order) + 1))
        for arm, candidate in zip(order, candidates, strict=True):
            # No second copy of the reference for its outputs.
            if np.array_equal(assignments[arm], self.reference_placement):
                self.references.setdefault(self.objective, candidate)
            self.reference_outputs.check(candidate.outputs(), assignments[arm])
        timers = self.warm_up(candidates, FINAL_WARMUP)
        race.run(timers[::step], self.protocol.final_rounds)
        for arm, candidate in zip(order, candidates, strict=True):
            compiled[arm].append(candidate.summarize())

    def warm_up(self, candidates: Sequence[CompiledPlacement], max_runs: int) -> list[Arm]:
        """Warm placements up one after another; return a function that samples for each."""
        arms = [warm_up(candidate.run, max_runs) for candidate in candidates]
        for candidate in candidates:
            candidate.forget()
        timers = [candidate.inferences.find_timer() for candidate in candidates]
        return [timer or arm for timer, arm in zip(timers, arms, strict=True)]

    def compile_all(self, assignments: Sequence[IntArray]) -> Iterator[CompiledPlacement]:
        """Compile placements, on CPUs at the same time: OpenVINO takes one core for each."""
        # Other devices report memory before and after; compiling for throughput takes measurements.
        if not self.protocol.goal.serial or not all(d.host for d in self.problem.devices):
            yield from map(self.compile, assignments)
            return
        with ThreadPoolExecutor(usable_cores()) as pool:
            yield from pool.map(self.compile, assignments)

    def compile_and_check(self, assignment: IntArray) -> CompiledPlacement:
        """Compile, run once and compare the outputs with those of the reference device."""
        candidate = self.compile(assignment)
        self.reference_outputs.check(candidate.outputs(), assignment)
        return candidate

    def output_error(self, assignment: IntArray) -> float:
        self.check_reference()
        with classified_failures():
            outputs = self.compile(assignment).outputs()
            return self.reference_outputs.find_error(outputs, assignment)

    def operator_errors(self, device: int, selected: IntArray) -> FloatArray:
        from placement_gym.backends.measured.operator_errors import measure_operator_errors

        if not self.host.request.separable:
            return np.full(len(selected), np.nan)
        with classified_failures():
            return measure_operator_errors(
                self.host, device, selected.astype(np.bool_), self.tolerance
            )

    def compile(self, assignment: IntArray) -> CompiledPlacement:
        """Compile a placement for the objective, set the inputs and run it once."""
        if self.protocol.goal.serial:
            return compile_candidate(self.host, assignment)
        return self.in_flight.compile(assignment, self.protocol.requests, self.protocol.window)

    @property
    def objective(self) -> str:
        return self.protocol.objective

    @property
    def tolerance(self) -> float:
        return self.reference_outputs.tolerance

    @property
    def steady(self) -> list[bool]:
        return self.reference_outputs.steady

    @property
    def comparison_rules(self) -> list[str]:
        return self.reference_outputs.choosing.list_rules()

    @cached_property
    def in_flight(self) -> ThroughputCompiler:
        from placement_gym.backends.measured.throughput import ThroughputCompiler

        return ThroughputCompiler(self.host, self.tolerance)

    @property
    def reference_placement(self) -> IntArray:
        """(n_units,) the reference device alone."""
        return self.problem.single(self.problem.reference_device)

    @property
    def reference(self) -> CompiledPlacement:
        """The reference device alone, compiled once for each objective."""
        if self.objective not in self.references:
            self.references[self.objective] = self.compile(self.reference_placement)
        return self.references[self.objective]

    @property
    def reference_arm(self) -> Arm:
        """Samples the reference, which is warmed up once for each objective."""
        if self.objective not in self.reference_arms:
            (arm,) = self.warm_up([self.reference], FINAL_WARMUP)
            self.reference_arms[self.objective] = arm
        return self.reference_arms[self.objective]

    def check_reference(self) -> None:
        try:
            with classified_failures():
                _ = self.reference, self.reference_outputs.expected, self.steady
        except EngineFailureError as failure:
            if not failure.policy.is_result:
                raise
            raise EngineError(f"the reference device does not run: {failure}") from failure

    @property
    def reference_ms(self) -> float:
        self.check_reference()
        with classified_failures():
            return self.time_candidate(self.reference, rival=0.0).reference_ms

    def measure_operators(self, device: int, prefill: bool = False) -> FloatArray:
        with classified_failures():
            n_inferences = self.protocol.counter_inferences
            return counters.measure_operator_times(self.host, device, n_inferences, prefill)

    def own_choice(self, plugin: str) -> IntArray:
        place = hetero.place_by_hetero if plugin == "HETERO" else hetero.place_by_auto
        self.host.beat("OpenVINO's own choice")
        with classified_failures():
            return place(self.host.core, self.host.model, self.problem)

    def restart(self) -> None:
        """Drop the compiled reference and its outputs."""
        self.references.clear()
        self.reference_arms.clear()
        self.reference_outputs.forget()


@contextmanager
def classified_failures() -> Iterator[None]:
    """Raise any exception but a user's error as a failure of the engine."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise classify(error) from error
