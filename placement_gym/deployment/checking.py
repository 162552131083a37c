"""Check devices with one model: operators that each refuses or computes wrongly, and the cost.

Suspects are cheap to find: ``query_model``, names in errors of the compiler, and a comparison of
operators one by one. Placements confirm them: suspects on the device, all else on the reference;
sets that fail are bisected.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import numpy as np

from placement_gym.backends import EngineFailureError
from placement_gym.backends.measured import MeasuredBackend, build_measured_backend, holds_model
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import (
    BoolArray,
    FloatArray,
    UserError,
    check_output_folder,
    keep_results,
    make_output_folder,
    make_printable,
    progress_bar,
    safe_name,
    write_json,
)
from placement_gym.hardware import DevicesArgument, DeviceSpec, resolve_devices
from placement_gym.models import Given, ModelSpec, Shapes
from placement_gym.problem import Constraints, fits_allocations

MAX_COMPILATIONS = 40
"""After this many compilations all remaining suspects count as at fault."""
REFUSED, DIFFERS = "refused", "differs"
SEPARATORS = re.compile(r"['\"`\s,;()<>\[\]]+|[:.](?=\s|$)")
Document = dict[str, Any]


def check(  # noqa: D417  arguments as for gym.make share a line
    model: Any = "resnet",
    devices: DevicesArgument = None,
    out: str | Path = "results",
    tolerance: float | None = None,
    shapes: Shapes | None = None,
    inputs: Given | None = None,
    scenario: str | None = None,
    extension: str | Path | None = None,
    quiet: bool = False,
) -> Document:
    """Find the operators that each device refuses or computes wrongly.

    Outputs are compared with the reference, the first CPU in f32, which is added if there is none.
    If a device alone fails, ``FaultFinder`` finds the operators at fault and verifies that
    all others run there with the reference's outputs. ``out`` then gets
    ``check-MODEL-constraints.json`` for ``constraints`` of ``plan``.

    Args:
        model, devices, shapes, inputs, scenario, extension: As for ``gym.make``.
        out: Folder for the constraints.
        tolerance: As for ``gym.make``; None chooses it for each device.
        quiet: Show no progress.

    Returns:
        ``model``, ``n_operators``, ``file`` (the constraints, or None), ``unsaved`` (why they
        could not be written, or an empty string), ``wall_s`` and ``devices``, for each device but
        the reference ``name``, ``reference``, ``tolerance``,
        ``skipped`` (why it was not checked, or an empty string), ``error`` (relative, of the device
        alone; None if it does not run, or its outputs are not finite), ``refusal`` (why it does
        not run, or an empty string),
        ``compared_outputs`` and ``random_outputs`` (how many outputs of the reference, of a model
        with state at each step, are the same in each run, and how many are not), ``rules`` (how
        outputs behind choices, as those of a TopK, are compared),
        ``operators`` at fault (``name``, ``type``, ``fault``: ``"refused"`` or ``"differs"``,
        ``reason``, ``error``), ``confirmed`` (whether all others run there as on the reference),
        ``adds_up`` (whether no operator alone is off by more than the tolerance, but all together
        are), ``compilations``; and of the analytic model, None without one, ``alone_ms``,
        ``kept_off_ms`` and ``n_submodels`` with the operators on the reference.

    Raises:
        UserError: There is only the reference, or its outputs are not finite.
        EngineError: The reference does not run.
    """
    start_s = perf_counter()
    folder = check_output_folder(out)
    spec = ModelSpec(model, "op", "folded", shapes, inputs, scenario, extension)
    reference, tested = choose_reference(resolve_devices(devices, "measured"))
    rows, graph = [], None
    for device in tested:
        with progress_bar(None, "", quiet, description=f"checking {device.name}"):
            backend = build_measured_backend(spec, (reference, device), tolerance=tolerance)
            with closing(backend):
                rows.append(check_device(backend))
            graph = backend.problem.units.graph
    assert graph is not None  # there is a device
    name = f"check-{safe_name(graph.model)}-constraints.json"
    document: Document = {
        "model": graph.model,
        "n_operators": len(graph),
        "devices": rows,
        "unsaved": "",
        "wall_s": perf_counter() - start_s,
    }
    with keep_results(document):
        document["file"] = write_constraints(rows, folder / name)
    return document


def choose_reference(devices: tuple[DeviceSpec, ...]) -> tuple[DeviceSpec, list[DeviceSpec]]:
    """Choose the device to trust, and those to check, of which there has to be one."""
    exact = [device for device in devices if device.host and device.precision == "f32"]
    reference = exact[0] if exact else DeviceSpec("CPU")
    tested = [device for device in devices if device != reference]
    if not tested:
        raise UserError(
            f"{reference.name} is the reference of the check: name a device to check, as in "
            "--devices NPU, or a test bed, as in cpu-testbed"
        )
    return reference, tested


def check_device(backend: MeasuredBackend) -> Document:
    """Check the second device of a backend's problem; the first is the reference."""
    problem, device = backend.problem, 1
    units, runs = problem.units, holds_model(problem, device)
    finder = FaultFinder(backend, device)
    if runs:
        finder.find()
    alone = finder.alone
    return {
        "name": problem.device_names[device],
        "reference": problem.device_names[problem.reference_device],
        "tolerance": backend.tolerance,
        "skipped": "" if runs else "not checked: it cannot hold the whole model",
        "error": finite_or_none(alone.error if alone else None),
        "refusal": alone.refusal if alone else "",
        "operators": [
            {
                "name": units.names[fault.unit],
                "type": units.quotient.types[fault.unit],
                "fault": fault.kind,
                "reason": make_printable(fault.reason),
                "error": finite_or_none(fault.error),
            }
            for fault in sorted(finder.faults, key=lambda fault: fault.unit)
        ],
        "confirmed": finder.confirmed,
        "adds_up": finder.adds_up,
        "compared_outputs": backend.steady.count(True) if runs else 0,
        "random_outputs": backend.steady.count(False) if runs else 0,
        "rules": backend.comparison_rules if runs else [],
        "compilations": finder.compilations,
        **estimate(backend, device, [fault.unit for fault in finder.faults]),
    }


def finite_or_none(error: float | None) -> float | None:
    """Return an error for JSON: None also for outputs that are not finite or have other shapes."""
    return error if error is not None and isfinite(error) else None


def estimate(backend: MeasuredBackend, device: int, kept_off: list[int]) -> Document:
    """Estimate what keeping units off a device costs, by the analytic model; None without it."""
    problem, costs = backend.problem, backend.rough_costs
    if costs is None:
        return dict.fromkeys(("alone_ms", "kept_off_ms", "n_submodels"))
    twin = SimulatedBackend(problem, costs)
    single, split = problem.single(device), problem.single(device)
    split[kept_off] = problem.reference_device
    whole, parted = map(twin.evaluate_ignoring_limits, (single, split))
    return {
        "alone_ms": whole.latency_ms,
        "kept_off_ms": parted.latency_ms,
        "n_submodels": parted.n_submodels,
    }


def write_constraints(rows: list[Document], file: Path) -> str | None:
    """Write constraints for the operators at fault; None if there are none."""
    keep_off = {
        row["name"]: [operator["name"] for operator in row["operators"]]
        for row in rows
        if row["operators"]
    }
    if not keep_off:
        return None
    make_output_folder(file.parent)
    write_json(file, Constraints(keep_off=keep_off).to_json())
    return str(file)


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
    """Outcome of a placement: its error, infinite if it does not run, and the reason if so."""

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
        alone: The outcome of all units that ``query_model`` lists; None before it is known.
        faults: Units at fault.
        confirmed: True if everything else on the device ran with the same outputs.
        adds_up: True if no unit alone exceeds the tolerance, but all together do.
        compilations: Compilations so far, including the reference's.
    """

    def __init__(self, backend: MeasuredBackend, device: int) -> None:
        self.backend, self.problem, self.device = backend, backend.problem, device
        self.alone: Outcome | None = None
        self.faults: list[Fault] = []
        self.confirmed = self.adds_up = False
        self.compilations = 1
        self.left: BoolArray = self.problem.runs[:, device].copy()
        self.outcomes: dict[bytes, Outcome] = {}
        self.errors: FloatArray | None = None

    def find(self) -> Self:
        """Find them all, or as many as ``MAX_COMPILATIONS`` allow."""
        fits = fits_allocations(self.problem.units, self.problem.devices[self.device])
        too_large = "one of its tensors exceeds the largest allocation of the device"
        self.faults += [
            Fault(unit, REFUSED, "query_model does not list it" if fits[unit] else too_large)
            for unit in np.flatnonzero(~self.left).tolist()
        ]
        while self.left.any():
            try:
                outcome = self.attempt(np.flatnonzero(self.left).tolist())
                self.alone = self.alone or outcome
                self.confirmed = outcome.error <= self.backend.tolerance
                suspects = [] if self.confirmed else self.explain(outcome)
            except CompilationsSpentError:
                break
            if not suspects:
                break
            self.left[[fault.unit for fault in suspects]] = False
            self.faults += suspects
        else:
            self.confirmed = True
        if self.confirmed and not all(self.backend.steady):
            # Placements show nothing where outputs are random: operators one by one do.
            reason = "its outputs differ; those of the model are random"
            self.faults += [
                Fault(unit, DIFFERS, reason, self.own_error(unit)) for unit in self.differing()
            ]
        return self

    def explain(self, outcome: Outcome) -> list[Fault]:
        """Find new faults from the outcome of the remaining units."""
        kind = REFUSED if outcome.refusal else DIFFERS
        suspects = self.named_in(outcome.refusal) if outcome.refusal else self.differing()
        try:
            units = self.isolate(suspects) if suspects and self.fail(suspects) else []
        except CompilationsSpentError:
            units = suspects
        if not units:
            # No suspect is confirmed: the device computes it wrongly only in the whole model.
            left = np.flatnonzero(self.left).tolist()
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
        """Return the last suspect of the shortest prefix that fails."""
        lengths = range(1, len(suspects))
        return suspects[bisect_left(lengths, True, key=lambda n: self.fail(suspects[:n]))]

    def adds_little(self, suspects: Sequence[int], last: int) -> bool:
        """Return whether the last suspect adds no more error than the tolerance."""
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
        """Count compilations that are about to be made."""
        if self.compilations + n > MAX_COMPILATIONS:
            raise CompilationsSpentError
        self.compilations += n

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
