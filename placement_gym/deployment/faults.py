"""Find the operators that a device refuses or computes wrongly.

``query_model``, names in the compiler's errors, and a comparison of operators one by one suggest
suspects. Placements with suspects on the device and all else on the reference confirm them, by
bisection of the sets that fail.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np

from placement_gym.backends import EngineFailureError
from placement_gym.backends.measured import MeasuredBackend
from placement_gym.base import BoolArray, FloatArray
from placement_gym.problem import fits_allocations

MAX_COMPILATIONS = 40
"""After so many compilations all remaining suspects count as at fault. Hand-tuned."""
REFUSED, DIFFERS = "refused", "differs"
SEPARATORS = re.compile(r"['\"`\s,;()<>\[\]]+|[:.](?=\s|$)")


@dataclass(frozen=True)
class Fault:
    """A unit that a device should not run.

    Attributes:
        unit: Its index.
        kind: ``"refused"`` or ``"differs"``.
        reason: Why it was refused, or how a difference was found; it may be empty.
        error: Relative error of its outputs on the reference's inputs, if known.
    """

    unit: int
    kind: str
    reason: str = ""
    error: float | None = None


@dataclass(frozen=True)
class Outcome:
    """The relative error of a placement's outputs; infinite, with a refusal, if it does not run."""

    error: float
    refusal: str = ""


class CompilationsSpentError(Exception):
    """``MAX_COMPILATIONS`` are used up."""


class FaultFinder:
    """Finds the units at fault on a device.

    Args:
        backend: Compiles placements; the reference device of its problem is trusted.
        device: Index of the device to check.

    Attributes:
        alone: The outcome of all units that ``query_model`` lists, once it is known.
        faults: Units at fault.
        confirmed: Whether everything else on the device ran with the same outputs.
        adds_up: Whether no unit alone exceeds the tolerance, but all together do.
        compilations: Compilations so far, including the reference's.
    """

    def __init__(self, backend: MeasuredBackend, device: int) -> None:
        self.backend, self.problem, self.device = backend, backend.problem, device
        self.alone: Outcome | None = None
        self.faults: list[Fault] = []
        self.confirmed = self.adds_up = False
        self.compilations = 1
        self.remaining: BoolArray = self.problem.runs[:, device].copy()
        self.outcomes: dict[bytes, Outcome] = {}
        self.errors: FloatArray | None = None

    def find(self) -> Self:
        """Find all units at fault, or as many as ``MAX_COMPILATIONS`` allow."""
        fits = fits_allocations(self.problem.units, self.problem.devices[self.device])
        too_large = "one of its tensors exceeds the largest allocation of the device"
        self.faults += [
            Fault(unit, REFUSED, "query_model does not list it" if fits[unit] else too_large)
            for unit in np.flatnonzero(~self.remaining).tolist()
        ]
        with suppress(CompilationsSpentError):
            while found := self.try_remaining():
                self.remaining[[fault.unit for fault in found]] = False
                self.faults += found
        if self.confirmed and not all(self.backend.steady):
            # Random outputs cannot be compared: compare the operators one by one.
            reason = "its outputs differ; those of the model are random"
            self.faults += [
                Fault(unit, DIFFERS, reason, self.own_error(unit)) for unit in self.find_differing()
            ]
        return self

    def try_remaining(self) -> list[Fault]:
        """Run the remaining units on the device; return the faults that explain a failure."""
        units = np.flatnonzero(self.remaining).tolist()
        if not units:
            self.confirmed = True
            return []
        outcome = self.attempt(units)
        self.alone = self.alone or outcome
        self.confirmed = outcome.error <= self.backend.tolerance
        return [] if self.confirmed else self.explain(outcome)

    def explain(self, outcome: Outcome) -> list[Fault]:
        """Find faults that explain why the remaining units fail together."""
        kind = REFUSED if outcome.refusal else DIFFERS
        suspects = self.find_named(outcome.refusal) if outcome.refusal else self.find_differing()
        try:
            units = self.isolate(suspects) if suspects and self.fail(suspects) else []
        except CompilationsSpentError:
            units = suspects
        if not units:
            # No suspect fails without the rest of the model.
            left = np.flatnonzero(self.remaining).tolist()
            units = [self.last_of_least(left)]
            self.adds_up = kind == DIFFERS and self.adds_little(left, units[0])
        if self.adds_up:
            return []
        return [Fault(unit, kind, outcome.refusal, self.own_error(unit)) for unit in units]

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
        """Return the last unit of the shortest prefix of the suspects that fails."""
        lengths = range(1, len(suspects))
        return suspects[bisect_left(lengths, True, key=lambda n: self.fail(suspects[:n]))]

    def adds_little(self, suspects: Sequence[int], last: int) -> bool:
        """Return whether a suspect adds at most the tolerance to the error of those before it."""
        n = suspects.index(last)
        before, after = self.attempt(suspects[:n]), self.attempt(suspects[: n + 1])
        return after.error - before.error <= self.backend.tolerance

    def fail(self, units: Sequence[int]) -> bool:
        """Return whether a placement with only these units on the device fails."""
        return self.attempt(units).error > self.backend.tolerance

    def attempt(self, units: Sequence[int]) -> Outcome:
        """Compile and run a placement with only these units on the device."""
        assignment = self.problem.single(self.problem.reference_device)
        assignment[units] = self.device
        key = assignment.tobytes()
        if key not in self.outcomes:
            self.count(1)
            try:
                error = self.backend.retry(lambda: self.backend.output_error(assignment))
                self.outcomes[key] = Outcome(error)
            except EngineFailureError as failure:
                if not failure.policy.is_result:
                    raise
                self.outcomes[key] = Outcome(np.inf, str(failure))
        return self.outcomes[key]

    def count(self, n: int) -> None:
        """Count the next compilations, or raise ``CompilationsSpentError``."""
        if self.compilations + n > MAX_COMPILATIONS:
            raise CompilationsSpentError
        self.compilations += n

    def find_named(self, refusal: str) -> list[int]:
        """Return the remaining units with an operator that a compiler's error names."""
        graph, unit = self.problem.units.graph, self.problem.units.of_operator
        words = set(SEPARATORS.split(refusal))
        units = {
            int(unit[operator])
            for operator, names in enumerate(graph.members)
            if words.intersection(names)
        }
        return [suspect for suspect in sorted(units) if self.remaining[suspect]]

    def find_differing(self) -> list[int]:
        """Return the remaining units with an operator whose own outputs differ."""
        if self.errors is None:
            unit = self.problem.units.of_operator
            self.errors = np.zeros(self.problem.n_units)
            self.count(2)
            try:
                selected = self.remaining[unit].astype(np.int64)
                errors = self.backend.operator_errors(self.device, selected)
                np.fmax.at(self.errors, unit, errors)
            except EngineFailureError as failure:
                if not failure.policy.is_result:
                    raise
        suspects = self.remaining & (self.errors > self.backend.tolerance)
        return np.flatnonzero(suspects).tolist()

    def own_error(self, unit: int) -> float | None:
        """Return the error of a unit's own outputs, if operators were compared one by one."""
        return None if self.errors is None else float(self.errors[unit])
