"""Operators at fault on a device: it refuses them, or computes them wrongly.

Suspects are cheap to find: ``query_model``, names in errors of the compiler, and a comparison of
operators one by one. Placements confirm them: suspects on the device, all else on the reference;
sets that fail are bisected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from placement_gym.backends import EngineFailureError
from placement_gym.backends.measured import MeasuredBackend
from placement_gym.base import BoolArray, FloatArray
from placement_gym.problem import fits_allocations

MAX_COMPILATIONS = 40
"""After this many compilations all remaining suspects count as at fault."""
REFUSED, DIFFERS = "refused", "differs"
SEPARATORS = re.compile(r"['\"`\s,;()<>\[\]]+|[:.](?=\s|$)")
RANDOM_OUTPUTS = "its outputs differ; those of the model are random"
NOT_LISTED = "query_model does not list it"
TOO_LARGE = "one of its tensors exceeds the largest allocation of the device"


@dataclass(frozen=True)
class Fault:
    """A unit that a device should not run.

    Attributes:
        unit: Its index.
        kind: ``"refused"`` or ``"differs"``.
        reason: Reason of the refusal, or that its outputs differ only together with others.
        error: Relative error of its own outputs on the reference's inputs, if that is known.
    """

    unit: int
    kind: str
    reason: str = ""
    error: float | None = None


@dataclass(frozen=True)
class Outcome:
    """Outcome of a placement: its error, or the reason why it does not run."""

    error: float = 0.0
    refusal: str = ""


@dataclass
class Findings:
    """Results of a device so far.

    Attributes:
        alone: The outcome of all units that ``query_model`` lists; None before it is known.
        faults: Units at fault.
        confirmed: True if everything else on the device ran with the same outputs.
        adds_up: True if no unit alone exceeds the tolerance, but all together do.
        compilations: Compilations so far, including the reference's.
    """

    alone: Outcome | None = None
    faults: list[Fault] = field(default_factory=list)
    confirmed: bool = False
    adds_up: bool = False
    compilations: int = 1


class CompilationsSpentError(Exception):
    """``MAX_COMPILATIONS`` are used up."""


class FaultFinder:
    """Finds the units at fault on a device.

    Args:
        backend: Compiles placements; the reference device of its problem is trusted.
        device: Index of the device to check.
    """

    def __init__(self, backend: MeasuredBackend, device: int) -> None:
        self.backend, self.problem, self.device = backend, backend.problem, device
        self.findings = Findings()
        self.left: BoolArray = self.problem.runs[:, device].copy()
        self.outcomes: dict[bytes, Outcome] = {}
        self.errors: FloatArray | None = None

    def find(self) -> Findings:
        """Find them all, or as many as ``MAX_COMPILATIONS`` allow."""
        findings = self.findings
        fits = fits_allocations(self.problem.units, self.problem.devices[self.device])
        findings.faults += [
            Fault(unit, REFUSED, NOT_LISTED if fits[unit] else TOO_LARGE)
            for unit in np.flatnonzero(~self.left).tolist()
        ]
        while self.left.any():
            try:
                outcome = self.attempt(self.left)
                findings.alone = findings.alone or outcome
                findings.confirmed = not self.fails(outcome)
                suspects = [] if findings.confirmed else self.explain(outcome)
            except CompilationsSpentError:
                break
            if not suspects:
                break
            self.left[[fault.unit for fault in suspects]] = False
            findings.faults += suspects
        else:
            findings.confirmed = True
        if findings.confirmed and not all(self.backend.steady):
            # Placements show nothing where outputs are random: operators one by one do.
            findings.faults += [
                Fault(unit, DIFFERS, RANDOM_OUTPUTS, self.own_error(unit))
                for unit in self.differing()
            ]
        return findings

    def explain(self, outcome: Outcome) -> list[Fault]:
        """Find new faults from the outcome of the remaining units."""
        kind = REFUSED if outcome.refusal else DIFFERS
        suspects = self.named_in(outcome.refusal) if outcome.refusal else self.differing()
        try:
            units = self.confirm(suspects)
        except CompilationsSpentError:
            units = suspects
        if not units:
            # No suspect is confirmed: the device computes it wrongly only in the whole model.
            left = np.flatnonzero(self.left).tolist()
            units = [self.last_of_least(left)]
            self.findings.adds_up = kind == DIFFERS and self.adds_up(left, units[0])
        if self.findings.adds_up:
            return []
        return [Fault(unit, kind, outcome.refusal, self.own_error(unit)) for unit in units]

    def confirm(self, suspects: Sequence[int]) -> list[int]:
        """Return the suspects at fault; none if all of them run correctly on the device."""
        if not suspects or not self.fail(suspects):
            return []
        return self.isolate(suspects)

    def isolate(self, suspects: Sequence[int]) -> list[int]:
        """Find the units at fault among suspects that fail together."""
        if len(suspects) == 1:
            return list(suspects)
        half = len(suspects) // 2
        halves = suspects[:half], suspects[half:]
        failing = [part for part in halves if self.fail(part)]
        if not failing:
            return [self.last_of_least(suspects)]  # it fails together with others
        return [unit for part in failing for unit in self.isolate(part)]

    def last_of_least(self, suspects: Sequence[int]) -> int:
        """Return the last suspect of the shortest prefix that fails."""
        low, high = 1, len(suspects)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.fail(suspects[:middle]) else (middle + 1, high)
        return suspects[low - 1]

    def adds_up(self, suspects: Sequence[int], last: int) -> bool:
        """Return whether the last suspect adds no more error than the tolerance."""
        before, after = (
            self.attempt(np.isin(np.arange(self.problem.n_units), suspects[:count])).error
            for count in (suspects.index(last), suspects.index(last) + 1)
        )
        return after - before <= self.backend.tolerance

    def fail(self, units: Sequence[int]) -> bool:
        """Return whether a placement with only these units on the device fails."""
        return self.fails(self.attempt(np.isin(np.arange(self.problem.n_units), units)))

    def fails(self, outcome: Outcome) -> bool:
        return bool(outcome.refusal) or outcome.error > self.backend.tolerance

    def attempt(self, units: BoolArray) -> Outcome:
        """Compile and run a placement with the chosen units, (n_units,) bool, on the device.

        Raises:
            EngineError: The placement did not cause the failure.
        """
        if units.tobytes() not in self.outcomes:
            reference = self.problem.reference_device
            assignment = np.where(units, self.device, reference).astype(np.int64)
            self.count(1)
            try:
                error = self.backend.retry(lambda: self.backend.output_error(assignment))
                self.outcomes[units.tobytes()] = Outcome(error)
            except EngineFailureError as failure:
                if not failure.policy.is_result:
                    raise
                self.outcomes[units.tobytes()] = Outcome(refusal=str(failure))
        return self.outcomes[units.tobytes()]

    def count(self, n: int) -> None:
        """Count compilations that are about to be made."""
        if self.findings.compilations + n > MAX_COMPILATIONS:
            raise CompilationsSpentError
        self.findings.compilations += n

    def named_in(self, refusal: str) -> list[int]:
        """Return the units of operators that a compiler's error names."""
        graph, unit = self.problem.units.graph, self.problem.units.of_operator
        words = set(SEPARATORS.split(refusal))
        units = {
            int(unit[operator])
            for operator, names in enumerate(graph.members)
            if words.intersection(names)
        }
        return [suspect for suspect in sorted(units) if self.left[suspect]]

    def differing(self) -> list[int]:
        """Return the units with an operator whose outputs differ on the reference's inputs."""
        if self.errors is None:
            unit = self.problem.units.of_operator
            self.errors = np.zeros(self.problem.n_units)
            self.count(2)
            try:
                selected = self.left[unit].astype(np.int64)
                errors = self.backend.operator_errors(self.device, selected)
                np.fmax.at(self.errors, unit, errors)
            except EngineFailureError as failure:
                if not failure.policy.is_result:
                    raise
        suspects = self.left & (self.errors > self.backend.tolerance)
        return np.flatnonzero(suspects).tolist()

    def own_error(self, unit: int) -> float | None:
        """Return the error of a unit's outputs, if operators were compared one by one."""
        return None if self.errors is None else float(self.errors[unit])
