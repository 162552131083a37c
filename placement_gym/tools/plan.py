"""A plan for an engineer: profile, solve, measure the best few, hand over the fastest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.backends.measured.backend import MeasuredBackend
from placement_gym.backends.measured.build import build_measured_backend
from placement_gym.backends.measured.profile import cached
from placement_gym.backends.measured.timing_protocol import QUICK
from placement_gym.backends.protocol import Measurement
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.bench.run.rows import plain
from placement_gym.devices import collect_cautions
from placement_gym.errors import EngineError
from placement_gym.patterns import prefixes, windows
from placement_gym.placement import Placement
from placement_gym.progress import progress_bar
from placement_gym.solvers.cuts import minimum_cut
from placement_gym.solvers.milp import serial_program

Document = dict[str, Any]

MEASURED_MS = 10_000.0
MOST_REPEATS = 64


@dataclass(frozen=True)
class Candidate:
    """A placement that may become the plan.

    Attributes:
        label: How tables name it.
        assignment: (n_units,) device indices.
        predicted_ms: By the twin.
    """

    label: str
    assignment: IntArray
    predicted_ms: float


def plan(
    model: Any = "resnet",
    devices: Any = None,
    granularity: str = "colocated",
    out: str | Path = "results",
    time_limit_s: float = 10.0,
    refresh: bool = False,
    quiet: bool = False,
) -> Document:
    """Find the placement to deploy: solved on a profile, and measured before it is handed over.

    Candidates are the solvers' placements, the best prefix and window by the twin, and every
    single device. All are measured side by side. The plan is the fastest split if it beats every
    single device that may run the model by more than the noise, else the fastest single device.
    ``out`` gets ``plan-MODEL.json``, the placement; ``plan-MODEL-report.json``; and a picture.

    Args:
        model: As for ``gym.make``.
        devices: As for ``gym.make``.
        granularity: As for ``gym.make``.
        out: Folder for the results.
        time_limit_s: For the mixed-integer program.
        refresh: Profile again, even if this machine has a profile.
        quiet: Show no progress.

    Returns:
        ``model``, ``devices``, ``notes``, ``plan`` (the row's label), ``verdict``, ``bound_ms`` of
        the profile's model, ``wall_s``, ``file`` and ``rows``: for each candidate ``label``,
        ``alone`` (a single device), ``predicted_ms``, and, None where memory forbids it,
        ``measured_ms``, ``speedup`` over the fastest feasible single device, ``noise``,
        ``n_submodels``.
    """
    from placement_gym.plots.placement import draw_placement
    from placement_gym.plots.style import save

    started = perf_counter()
    backend = build_measured_backend(model, devices, granularity, protocol=QUICK)
    problem = backend.problem
    twin = SimulatedBackend(problem, cached(backend, refresh, quiet, quick=True))
    found, bound_ms = candidates(twin, time_limit_s)
    measured = measure(with_enough_repeats(backend, found), found, quiet)
    rows = table(found, measured)
    label = choice(rows)
    placement = Placement.of(problem, next(c.assignment for c in found if c.label == label))
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"plan-{problem.units.graph.model}"
    document: Document = plain(
        {
            "model": problem.units.graph.model,
            "devices": problem.device_names,
            "notes": collect_cautions(problem.devices),
            "plan": label,
            "verdict": verdict(rows, label),
            "bound_ms": bound_ms,
            "wall_s": perf_counter() - started,
            "file": str(folder / f"{name}.json"),
            "rows": rows,
        }
    )
    placement.save(document["file"])
    title = "\n".join([f"{document['model']}: {document['verdict']}", *document["notes"]])
    save(draw_placement(problem, placement.assignment(problem), title), folder / f"{name}.png")
    (folder / f"{name}-report.json").write_text(json.dumps(document, indent=1) + "\n")
    return document


def candidates(twin: SimulatedBackend, time_limit_s: float) -> tuple[list[Candidate], float]:
    """Distinct placements worth measuring, and what the twin says none can beat, in ms."""
    problem, costs = twin.problem, twin.costs
    named = [
        (f"{name} alone", problem.single(device))
        for device, name in enumerate(problem.device_names)
        if problem.runs_all[device]
    ]
    solved = serial_program(problem, costs, time_limit_s)
    if solved.assignment is not None:
        named.append(("milp", solved.assignment))
    if len(problem.devices) == 2 and problem.supports_all and not problem.limited:
        cut = minimum_cut(problem.units, costs).assignment
        assert cut is not None  # there always is one
        named.append(("min-cut", cut))
    for label, splits in (("prefix", prefixes(problem)), ("window", windows(problem))):
        latency_ms, feasible = twin.exact_batch(splits)
        if feasible.any():
            named.append((label, splits[np.where(feasible, latency_ms, np.inf).argmin()]))
    distinct: dict[bytes, Candidate] = {}
    for label, assignment in named:
        predicted_ms = twin.evaluate_ignoring_limits(assignment).latency_ms
        distinct.setdefault(assignment.tobytes(), Candidate(label, assignment, predicted_ms))
    return list(distinct.values()), solved.bound_ms


def with_enough_repeats(backend: MeasuredBackend, found: list[Candidate]) -> MeasuredBackend:
    """The backend with as many inferences of each candidate as there is time for."""
    round_ms = max(sum(c.predicted_ms for c in found), 1e-3) * QUICK.final_compiles
    repeats = int(np.clip(MEASURED_MS / round_ms, QUICK.final_repeats, MOST_REPEATS))
    return backend.under(replace(QUICK, final_repeats=repeats))


def measure(
    backend: MeasuredBackend, found: list[Candidate], quiet: bool
) -> dict[str, Measurement]:
    """Label -> measurement of every candidate that memory allows and that runs.

    The first, to which all others are compared, is the fastest single device by the twin.
    """
    allowed = [c for c in found if not backend.problem.infeasibility(c.assignment)]
    allowed.sort(key=lambda c: (len(set(c.assignment.tolist())), c.predicted_ms))
    with progress_bar(None, "", quiet) as progress:
        progress.update(progress.task_ids[0], description=f"measuring {len(allowed)} candidates")
        try:
            measured = backend.remeasure([c.assignment for c in allowed])
        except RuntimeError:
            allowed = [
                c for c in allowed if backend.evaluate_ignoring_limits(c.assignment).feasible
            ]
            measured = backend.remeasure([c.assignment for c in allowed])
    return {c.label: m for c, m in zip(allowed, measured, strict=True)}


def table(found: list[Candidate], measured: Mapping[str, Measurement]) -> list[dict[str, Any]]:
    """The rows of the report, fastest first."""
    alone = [c.label for c in found if len(set(c.assignment.tolist())) == 1]
    singles = [measured[label] for label in alone if label in measured]
    best = max(singles, key=lambda single: single.speedup, default=None)
    rows = [
        row(candidate, measured.get(candidate.label), candidate.label in alone, best)
        for candidate in found
    ]
    return sorted(rows, key=lambda row: row["measured_ms"] or float("inf"))


def row(
    candidate: Candidate, found: Measurement | None, alone: bool, best: Measurement | None
) -> dict[str, Any]:
    """One candidate's row; ``best`` is the fastest single device, if any runs."""
    values = {"label": candidate.label, "alone": alone, "predicted_ms": candidate.predicted_ms}
    if found is None:
        return values | dict.fromkeys(("measured_ms", "speedup", "noise", "n_submodels"))
    return values | {
        "measured_ms": found.latency_ms,
        "speedup": None if best is None else found.speedup / best.speedup,
        "noise": found.noise + (0.0 if best in (None, found) else best.noise),
        "n_submodels": found.n_submodels,
    }


def choice(rows: list[dict[str, Any]]) -> str:
    """The label of the row to hand over.

    Raises:
        RuntimeError: No candidate ran.
    """
    ran = [row for row in rows if row["measured_ms"] is not None]
    if not ran:
        raise EngineError("no candidate fits the devices' memory and runs: nothing to hand over")
    singles = [row for row in ran if row["alone"]]
    best: dict[str, Any] = ran[0]
    if singles and not wins(best):
        best = singles[0]
    return str(best["label"])


def wins(row: Mapping[str, Any]) -> bool:
    """Whether the row beats the fastest single device by more than its noise."""
    return bool(row["speedup"] * (1 - row["noise"]) > 1.0)


def verdict(rows: list[dict[str, Any]], label: str) -> str:
    """One sentence that answers whether a split pays."""
    chosen = next(row for row in rows if row["label"] == label)
    if chosen["speedup"] is None:
        return f"No single device holds the model; {label} is the fastest split."
    if chosen["alone"]:
        close = [row for row in rows if not row["alone"] and (row["speedup"] or 0.0) > 1.0]
        equal = f"; {close[0]['label']} equals it within noise" if close else ""
        return f"No split beats {label}{equal}."
    return f"{label} beats the best single device by {100 * (chosen['speedup'] - 1):.1f} %."
