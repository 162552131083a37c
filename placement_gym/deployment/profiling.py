"""Profile a model on this machine, for plans, views and simulated environments."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from placement_gym.backends.measured import (
    explain_interrupt,
    kept_profile,
    load_or_measure,
    profile_path,
)
from placement_gym.base import check_output_file, keep_results, make_output_folder, name_output_file
from placement_gym.deployment.problems import build_backend_to_split
from placement_gym.hardware import DevicesArgument
from placement_gym.models import ModelSpec
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

FILE = "profile.json"


def profile(
    spec: ModelSpec,
    devices: DevicesArgument = None,
    out: str | Path | None = None,
    refresh: bool = False,
    quiet: bool = False,
    tolerance: float | None = None,
) -> dict[str, Any]:
    """Measure what operators and transfers cost, and keep the profile.

    Args:
        spec: The model, and the granularity to start with.
        devices: As for ``gym.make``.
        out: File or folder that also gets the cost table.
        refresh: Measure again, even if this machine has a profile.
        quiet: Show no progress.
        tolerance: As for ``gym.make``.

    Returns:
        See ``describe_profile``.

    Raises:
        UserError: ``out`` cannot be written, or the problem cannot be split or profiled.
    """
    # Some minutes of measuring follow: report a file that cannot be written before.
    file = check_output_file(name_output_file(out, FILE)) if out else None
    backend, _ = build_backend_to_split(spec, devices, quiet=quiet, tolerance=tolerance)
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
    """Summarise a profile for JSON: times of each device alone, and of transfers."""
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
            for j, b in enumerate(costs.devices)
            if i < j
        ],
        "submodel_ms": float(costs.submodel_ms.max()),
        "file": None if file is None else str(file),
        "unsaved": "",
    }
