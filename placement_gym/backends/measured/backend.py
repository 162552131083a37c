"""The measured backend: it asks an engine, retries after failures, and keeps findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from time import sleep
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from placement_gym.backends import Batch, EngineFailureError, Measurement
from placement_gym.backends.measured.engine import EngineProcess, OnRounds
from placement_gym.backends.measured.interference import Session, settle_reference
from placement_gym.backends.measured.timing_protocol import TimingProtocol
from placement_gym.base import EngineError, FloatArray, IntArray, UserError
from placement_gym.problem import Problem

if TYPE_CHECKING:
    from placement_gym.backends.measured.worker import Worker
    from placement_gym.problem.costs import CostTable

T = TypeVar("T")


class MeasuredBackend:
    """A ``Backend`` on OpenVINO, which may refuse, hang, die or report invalid latencies.

    ``failures.POLICIES`` defines the reaction to each failure. If the engine's process dies or
    hangs, the placement is tried once more in a new one, then infeasible for the whole session.

    Args:
        engine: Compiles and times placements: a worker in another process, or in this one.
        problem: Units and devices.
        alias: Whether devices get alias names, which keep submodels of HETERO apart.
        protocol: Objective and precision.
        finals_engine: A new copy of it measures finalists, as the caches, threads and memory of a
            process that has measured differ from those of a program that serves a placement. None
            takes ``engine``.
        measure_costs: Measures ``cost_table``.
    """

    def __init__(
        self,
        engine: EngineProcess | Worker,
        problem: Problem,
        alias: bool = False,
        protocol: TimingProtocol | None = None,
        finals_engine: EngineProcess | None = None,
        measure_costs: Callable[[MeasuredBackend], CostTable] | None = None,
    ) -> None:
        self.engine, self.problem, self.alias = engine, problem, alias
        self.protocol = protocol or TimingProtocol()
        self.finals_engine, self.measure_costs = finals_engine, measure_costs
        self.session = Session()
        self.on_rounds: OnRounds | None = None
        self.owns_engine = True

    def with_protocol(self, protocol: TimingProtocol) -> Self:
        """A backend with the same engine; with another objective it has a new session."""
        backend = copy(self)
        backend.protocol, backend.on_rounds, backend.owns_engine = protocol, None, False
        if protocol.objective != self.objective:
            backend.session = Session()
            backend.__dict__.pop("reference_ms", None)
        return backend

    def ask(self, question: str, *arguments: Any) -> Any:
        """Ask the engine for a property of ``Worker``, or the result of a method.

        Raises:
            EngineFailureError: The engine failed.
            UserError: The user has to change the model, its inputs or the devices.
        """
        return self.engine.ask(question, self.protocol, *arguments)

    def ask_again(self, question: str, *arguments: Any) -> Any:
        """``ask`` with retries.

        Raises:
            EngineError: All attempts failed.
        """
        try:
            return self.retry(lambda: self.ask(question, *arguments))
        except EngineFailureError as error:
            raise EngineError(f"{question.replace('_', ' ')} failed: {error}") from error

    @cached_property
    def reference_ms(self) -> float:
        """Median latency of the reference device."""
        return self.ask_again("reference_ms")

    @cached_property
    def tolerance(self) -> float:
        """Largest relative error of outputs beyond which a placement is infeasible."""
        return self.ask_again("tolerance")

    @cached_property
    def steady(self) -> list[bool]:
        """(n_outputs,) whether the reference repeats an output; only shapes of others count."""
        return self.ask_again("steady")

    @cached_property
    def comparison_rules(self) -> list[str]:
        """Lines that describe how outputs behind choices are compared; see ``ChoosingModel``."""
        return self.ask_again("comparison_rules")

    def measure_once(self, assignment: IntArray, rival: float = 0.0) -> Measurement:
        """Compile, check and time a placement alongside the reference; limits are ignored.

        A placement whose speed-up is clearly below ``rival`` is not measured more exactly.

        Raises:
            EngineFailureError: The placement, or the engine, failed.
        """
        return self.ask("measure_once", assignment, rival)

    def check_reference(self) -> None:
        """Compile the reference device once and check its outputs.

        Raises:
            UserError: They are not finite.
            EngineError: The device does not run the model.
        """
        self.ask_again("check_reference")

    def output_error(self, assignment: IntArray) -> float:
        """Relative error of a placement's outputs; infinite if not finite, or of other shapes.

        Raises:
            UserError: The reference device computes the model wrong.
            EngineFailureError: The placement does not run.
        """
        return self.ask("output_error", assignment)

    def operator_errors(self, device: int, selected: IntArray) -> FloatArray:
        """(n_operators,) relative error of each operator on a device; see ``operator_errors.py``.

        Operators whose item in ``selected`` is 0, and all of a model with state, have NaN.

        Raises:
            EngineFailureError: They do not run.
            UserError: The reference device computes the model wrong.
        """
        return self.ask("operator_errors", device, selected)

    def measure_operators(self, device: int, prefill: bool = False) -> FloatArray:
        """(n_operators,) median ms of operators on a device alone, by its counters.

        With ``prefill`` only the prefill of a scenario counts.
        """
        return self.ask_again("measure_operators", device, prefill)

    def own_choice(self, plugin: str) -> IntArray:
        """See ``Backend.own_choice``."""
        return self.ask_again("own_choice", plugin)

    def remeasure(self, assignments: Sequence[IntArray]) -> list[Measurement]:
        """See ``Backend.remeasure``.

        Raises:
            EngineError: A placement does not run.
        """
        backend = copy(self)
        if self.finals_engine is not None:
            backend.engine = process = copy(self.finals_engine)
            process.on_rounds = self.on_rounds
        try:
            return backend.ask_again("remeasure", list(assignments))
        finally:
            if backend.engine is not self.engine:
                backend.engine.restart()

    def restart(self) -> None:
        """Drop what the engine holds, and its process; the next question starts it again."""
        self.engine.restart()

    def close(self) -> None:
        """End the engine unless another backend owns it; the next question starts it again."""
        if self.owns_engine:
            self.engine.restart()

    @property
    def objective(self) -> str:
        return self.protocol.objective

    @property
    def limits_weights(self) -> bool:
        return self.problem.limited

    @cached_property
    def rough_costs(self) -> CostTable | None:
        """The analytic costs, if devices are of known kinds; see ``Backend.rough_costs``."""
        from placement_gym.problem.costs import analytic

        with suppress(UserError):
            return analytic(self.problem.units.graph, self.problem.devices)
        return None

    def evaluate(self, assignment: IntArray) -> Measurement:
        """Compile and time a placement alongside the reference; see ``Backend.evaluate``."""
        error = self.infeasibility(assignment)
        if error:
            return self.failure(error, assignment)
        measured = self.evaluate_ignoring_limits(assignment)
        # HETERO may create more submodels than the placement needs.
        error = self.problem.submodel_error(measured.n_submodels) if measured.feasible else ""
        return self.failure(error, assignment) if error else measured

    def evaluate_batch(self, assignments: IntArray) -> Batch:
        return Batch.evaluate(self.evaluate, assignments)

    def evaluate_ignoring_limits(self, assignment: IntArray) -> Measurement:
        """See ``Backend.evaluate_ignoring_limits``.

        Raises:
            EngineError: Something else than the placement failed: the run cannot continue.
        """
        earlier_error = self.session.failures.get(assignment.tobytes())
        if earlier_error is not None:
            return self.failure(earlier_error, assignment)
        try:
            return self.measure_and_recheck(assignment)
        except EngineFailureError as error:
            if not error.policy.is_result:
                raise
            if error.policy.remembered:
                self.check_reference()  # raises if the engine fails on every placement
                self.session.failures[assignment.tobytes()] = str(error)
            return self.failure(str(error), assignment)

    def measure_and_recheck(self, assignment: IntArray) -> Measurement:
        """Measure, once more if the reference has moved."""
        measurement = self.measure(assignment)
        repeat = self.session.is_worth_repeating(measurement)
        recorded = self.session.keep(measurement)
        if not repeat:
            return recorded
        try:
            return self.session.keep(self.measure(assignment))
        except EngineFailureError as error:
            return replace(recorded, warning=f"{recorded.warning}; measuring again failed: {error}")

    def measure(self, assignment: IntArray) -> Measurement:
        """Measure with retries; the reference's speed-up is 1 by definition."""
        rival = self.session.fastest if self.protocol.racing else 0.0
        measured = self.retry(lambda: self.measure_once(assignment, rival))
        is_reference = bool((assignment == self.problem.reference_device).all())
        return settle_reference(measured) if is_reference else measured

    def retry(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` with the retries that ``failures.POLICIES`` allow.

        Raises:
            EngineFailureError: The last attempt failed.
        """
        n_failures: dict[str, int] = {}
        while True:
            try:
                return attempt()
            except EngineFailureError as error:
                n_failed = n_failures[error.kind] = n_failures.get(error.kind, 0) + 1
                if error.policy.restart:
                    self.restart()
                if n_failed > len(error.policy.pauses_s):
                    raise
                sleep(error.policy.pauses_s[n_failed - 1])

    def failure(self, error: str, assignment: IntArray) -> Measurement:
        """The measurement of a placement that failed, or was not run."""
        traffic = self.problem.traffic(assignment)
        device_bytes = self.problem.memory_bytes(assignment)
        excess, held = int(self.problem.memory.excess(device_bytes).sum()), device_bytes.tolist()
        measurement = Measurement.failed(error, self.reference_ms, traffic, tuple(held), excess)
        extra_fields = self.protocol.goal.describe_failure(self.problem.units.graph.request)
        return replace(measurement, **extra_fields)

    def infeasibility(self, assignment: IntArray) -> str:
        return self.problem.infeasibility(assignment)

    def excess_shares(self, assignments: IntArray) -> FloatArray:
        device_bytes = np.stack([*map(self.problem.memory_bytes, assignments)])
        return self.problem.memory.excess_shares(device_bytes)

    def start_ms(self, assignment: IntArray) -> FloatArray:
        """Zeros: start times are not measured; see ``Backend.start_ms``."""
        return np.zeros(len(assignment))

    def cost_table(self) -> CostTable:
        """This machine's profile of the problem: a full one if it is kept, else a quick one."""
        assert self.measure_costs is not None, "this backend was made without a profile"
        return self.measure_costs(self)
