"""Profile a model on this machine, in units that are fine enough to split."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from placement_gym.backends.measured import (
    MeasuredBackend,
    TimingProtocol,
    build_measured_backend,
    check_can_be_profiled,
    check_several,
    explain_interrupt,
    kept_profile,
    load_or_measure,
    profile_path,
)
from placement_gym.base import (
    UserError,
    check_output_file,
    keep_results,
    make_output_folder,
    make_printable,
    name_first,
    name_output_file,
    progress_bar,
)
from placement_gym.graph import FINER, MIN_USEFUL_UNITS, count_units
from placement_gym.hardware import DevicesArgument, resolve_devices
from placement_gym.models import ModelSpec
from placement_gym.problem import Constraints, Problem
from placement_gym.problem.costs import CostTable

FILE = "profile.json"


def profile(  # noqa: D417  arguments as for gym.make share a line
    spec: ModelSpec,
    devices: DevicesArgument = None,
    out: str | Path | None = None,
    refresh: bool = False,
    quiet: bool = False,
    tolerance: float | None = None,
) -> dict[str, Any]:
    """Measure the costs of operators and transfers, and keep the profile.

    Args:
        spec: The model, and the granularity to start with.
        devices, tolerance: As for ``gym.make``.
        out: File or folder that also gets the cost table.
        refresh: Measure again, even if this machine has a profile.
        quiet: Show no progress.

    Returns:
        See ``describe_profile``.

    Raises:
        UserError: ``out`` cannot be written, or the problem cannot be split or profiled.
    """
    # Fail before minutes of measuring if possible.
    file = check_output_file(name_output_file(out, FILE)) if out else None
    backend, _ = build_divisible_backend(spec, devices, quiet=quiet, tolerance=tolerance)
    with closing(backend), explain_interrupt(backend):
        costs = load_or_measure(backend, refresh, quiet)
    document = describe_profile(backend.problem, costs, file or kept_profile(backend))
    if not document["file"]:
        document["unsaved"] = f"{profile_path(backend)} cannot be written; --out names another file"
    with keep_results(document):
        if file:
            make_output_folder(file.parent)
            costs.save(file)
    return document


def describe_profile(problem: Problem, costs: CostTable, file: str | Path | None) -> dict[str, Any]:
    """Summarise a profile for JSON: times of each device alone, its slowest units, and links."""
    unit_ms, names = costs.unit_ms(problem.units), problem.units.names
    slowest = unit_ms.argsort(axis=0)[::-1][:3].T
    return {
        "model": problem.units.graph.model,
        "costs": costs.source,
        "fingerprint": costs.fingerprint,
        "devices": [
            {
                "name": name,
                "ms": float(unit_ms[:, device].sum()),
                "slowest": {names[unit]: float(unit_ms[unit, device]) for unit in units},
            }
            for device, (name, units) in enumerate(zip(costs.devices, slowest, strict=True))
        ],
        "links": [
            {
                "devices": [a, b],
                "transfer_ms": float(costs.link_ms[i, j]),
                "ms_per_megabyte": float(costs.link_ms_per_size[i, j]),
            }
            for i, a in enumerate(costs.devices)
            for j, b in enumerate(costs.devices[i + 1 :], i + 1)
        ],
        "submodel_ms": float(costs.submodel_ms.max()),
        "file": None if file is None else str(file),
        "unsaved": "",
    }


def build_divisible_backend(
    spec: ModelSpec,
    devices: DevicesArgument = None,
    protocol: TimingProtocol | None = None,
    quiet: bool = False,
    tolerance: float | None = None,
    constraints: Any = None,
) -> tuple[MeasuredBackend, list[str]]:
    """Build a measured backend with at least four units, at a finer granularity if needed.

    A plain chain of layers is one unit under ``"colocated"``, which no placement splits. The notes
    on the units are also printed to standard error, before anything is measured. A problem that
    cannot be split or profiled raises ``UserError``.
    """
    bound = Constraints.parse(constraints)
    specs = resolve_devices(devices, "measured")
    check_several([device.name for device in specs])

    def build(spec: ModelSpec) -> MeasuredBackend:
        with progress_bar(None, "", quiet, description="reading the model"):
            return build_measured_backend(
                spec, specs, protocol=protocol, tolerance=tolerance, constraints=bound
            )

    backend, notes = build(spec), []
    while backend.problem.n_units < MIN_USEFUL_UNITS and spec.granularity in FINER:
        few, finer = count_units(backend.problem.units), FINER[spec.granularity]
        notes.append(f"granularity {spec.granularity!r} leaves only {few}: {finer!r} is used")
        spec = replace(spec, granularity=finer)
        backend = build(spec)
    problem, graph = backend.problem, backend.problem.units.graph
    n_units = count_units(problem.units)
    notes.append(f"{n_units} to place (granularity {spec.granularity!r})")
    notes += graph.request.list_notes()
    if deciding := [*graph.find_deciding()]:
        notes.append(
            f"the data decide the output sizes of {name_first(deciding)}: times and memory are "
            "those of the sample inputs"
        )
    if not quiet:
        print(f"{make_printable(graph.model)}: {'; '.join(notes)}", file=sys.stderr, flush=True)
    if problem.n_units < 2:
        raise UserError(
            f"{graph.model!r} has {n_units} even with granularity {spec.granularity!r}: there is "
            "nothing to split"
        )
    check_can_be_profiled(problem)
    backend.protocol.goal.check_rates(graph.models)
    return backend, notes
