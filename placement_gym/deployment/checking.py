"""Check devices with one model: operators that each refuses or computes wrongly."""

from __future__ import annotations

from contextlib import closing
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

from placement_gym.backends.measured import MeasuredBackend, build_measured_backend, holds_model
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import (
    UserError,
    check_output_folder,
    keep_results,
    make_output_folder,
    make_printable,
    progress_bar,
    safe_name,
    write_json,
)
from placement_gym.deployment.faults import FaultFinder
from placement_gym.hardware import DevicesArgument, DeviceSpec, resolve_devices
from placement_gym.models import InputsArgument, ModelSpec, Shapes
from placement_gym.problem import Constraints

Document = dict[str, Any]


def check(  # noqa: D417  arguments as for gym.make share a line
    model: Any = "resnet",
    devices: DevicesArgument = None,
    out: str | Path = "results",
    tolerance: float | None = None,
    shapes: Shapes | None = None,
    inputs: InputsArgument | None = None,
    scenario: str | None = None,
    extension: str | Path | None = None,
    quiet: bool = False,
) -> Document:
    """Find the operators that each device refuses or computes wrongly.

    Outputs are compared with those of the first CPU in f32, which is added if it is missing. If a
    device fails alone, ``FaultFinder`` finds the operators at fault and verifies that the others
    run there with the reference's outputs. ``out`` then gets ``check-MODEL-constraints.json`` for
    ``constraints`` of ``plan``.

    Args:
        model, devices, shapes, inputs, scenario, extension: As for ``gym.make``.
        out: Folder for the constraints.
        tolerance: As for ``gym.make``; None chooses it for each device.
        quiet: Show no progress.

    Returns:
        ``model``, ``n_operators``, ``file`` (the constraints, or None), ``unsaved`` (why they could
        not be written, or ""), ``wall_s`` and ``devices``. Of each device but the reference:
        ``name``, ``reference``, ``tolerance``, ``skipped`` (why it was not checked, or ""),
        ``error`` (relative, of the device alone; None if it does not run or its outputs are not
        finite), ``refusal`` (why it does not run, or ""), ``operators`` at fault (``name``,
        ``type``, ``fault``: ``"refused"`` or ``"differs"``, ``reason``, ``error``), ``confirmed``
        (whether all others run there as on the reference), ``adds_up`` (whether only all operators
        together exceed the tolerance), ``compared_outputs`` and ``random_outputs`` (outputs of the
        reference that are the same in each run, and others; for a model with state at each step),
        ``rules`` (how outputs that depend on choices, such as a TopK's, are compared),
        ``compilations``; and by the analytic model, None without one: ``alone_ms``, and
        ``kept_off_ms`` and ``n_submodels`` with the operators at fault on the reference.

    Raises:
        UserError: There is only the reference, or its outputs are not finite.
        EngineError: The reference does not run.
    """
    start_s = perf_counter()
    folder = check_output_folder(out)
    spec = ModelSpec(model, "op", "folded", shapes, inputs, scenario, extension)
    reference, tested = choose_reference(resolve_devices(devices, "measured"))
    rows = []
    for device in tested:
        with progress_bar(None, "", quiet, description=f"checking {device.name}"):
            backend = build_measured_backend(spec, (reference, device), tolerance=tolerance)
            with closing(backend):
                rows.append(check_device(backend))
    graph = backend.problem.units.graph  # the same with every device
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
    """Choose the device to trust and at least one to check."""
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
    """Check a problem's second device; the first is the reference."""
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
    """Replace an error that JSON cannot hold by None: outputs are not finite, or shapes differ."""
    return error if error is not None and isfinite(error) else None


def estimate(backend: MeasuredBackend, device: int, kept_off: list[int]) -> Document:
    """Estimate the latencies with and without the units on the device by the analytic model."""
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
    """Write constraints that keep the operators at fault off; return the file, if any."""
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
