"""A plan for an engineer: profile, solve, measure the best few, hand over the fastest."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from placement_gym.backends.measured.kept_profiles import (
    explain_interrupt,
    kept_profile,
    load_or_measure,
)
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.profile import n_measurements
from placement_gym.backends.measured.timing_protocol import QUICK
from placement_gym.backends.measured.tolerance import F32_TOLERANCE
from placement_gym.backends.pipeline.stage import with_streams
from placement_gym.base.errors import UserError, warn_user
from placement_gym.base.files import (
    check_output_folder,
    keep_if_possible,
    make_output_folder,
    safe_name,
    write_text,
)
from placement_gym.base.plain import to_plain
from placement_gym.deployment.candidates import Candidate
from placement_gym.deployment.export import export_phases, export_placement
from placement_gym.deployment.granularity import DEFAULT_GRANULARITY, build_backend_to_split
from placement_gym.deployment.memory import check_room, describe_fit, describe_use, report_memory
from placement_gym.deployment.phases import check_phases, report_phases
from placement_gym.deployment.plan_rows import state_plan_verdict
from placement_gym.deployment.selection import Selection, select
from placement_gym.deployment.sweep import sweep as sweep_properties
from placement_gym.hardware.devices import collect_cautions
from placement_gym.models.shapes import Shapes
from placement_gym.models.spec import ModelSpec
from placement_gym.problem.costs.table import CostTable, costs_beside
from placement_gym.problem.placement import Placement, describe_gain, describe_saved
from placement_gym.problem.problem import Problem
from placement_gym.workloads.objectives import find_objective

Document = dict[str, Any]


def plan(
    model: Any = "resnet",
    devices: Any = None,
    granularity: str = DEFAULT_GRANULARITY,
    out: str | Path = "results",
    time_limit_s: float = 10.0,
    refresh: bool = False,
    quiet: bool = False,
    shapes: Shapes | None = None,
    scenario: str | None = None,
    objective: str = "latency",
    export: str | Path | None = None,
    phases: bool = False,
    data_shapes: Shapes | None = None,
    tolerance: float | None = None,
    constraints: Any = None,
    sweep: bool = False,
) -> Document:
    """Find the placement to deploy: solved on a profile, and measured before it is handed over.

    Candidates are the solvers' placements, the best prefix and window by the twin, and every
    single device; where memory is limited also those that fill devices in order, as other tools
    and HETERO's ``PIPELINE_PARALLEL`` do. A split that nearly fills a device comes with variants
    that leave more of it free, see ``candidates``. What an integrated device reports as its memory
    is no limit: placements within it and beyond it are candidates, that device alone among them.
    All that fit are measured side by side. The plan is the
    fastest split if it beats every single device that may run the model by more than the noise,
    else the fastest single device.
    With objective ``"throughput"`` candidates are the best pipelines by the profile and single
    devices, each of these with the streams and requests that suit it best, and times are those
    between two results; ``Pipeline`` runs such a plan. Of several models they are the times between
    two rounds, candidates are also the models as they are on the best device for each and the
    devices that OpenVINO's AUTO chooses for them, and ``Pipelines`` runs the plan.
    With ``phases`` candidates are also the solver's placements for the prompt alone and for the
    tokens alone, and the fastest one for the prompt with the fastest one for the tokens, the state
    handed over between them, is measured alongside the best single placement. Both are compiled, so
    that devices hold the weights of both.
    With ``sweep`` the plan, the best split and the best single device are then raced with other
    OpenVINO properties of their devices: precision, threads, streams, performance hint. What beats
    the plan by more than the noise, with outputs within ``tolerance``, becomes the plan, and the
    placement's devices state it.
    ``out`` gets ``plan-MODEL.json``, the placement; ``plan-MODEL-costs.json``, the costs that it
    was solved for, which a view of it takes; ``plan-MODEL-report.json``; and a picture.

    Args:
        model: As for ``gym.make``.
        devices: As for ``gym.make``.
        granularity: As for ``gym.make``; a finer one is used where it leaves fewer than four
            units.
        out: Folder for the results.
        time_limit_s: For the mixed-integer program.
        refresh: Profile again, even if this machine has a profile.
        quiet: Show no progress.
        shapes: As for ``gym.make``.
        scenario: As for ``gym.make``.
        objective: As for ``gym.make``.
        export: Folder that also gets what OpenVINO alone needs to run the plan; see
            ``export_placement``.
        phases: Of a model with state, also plan for a placement of prompts and one of tokens;
            ``compile_phases`` runs them.
        data_shapes: As for ``gym.make``.
        tolerance: As for ``gym.make``.
        constraints: As for ``gym.make``; single devices that they forbid are rows with an error.
        sweep: Try other properties, too.

    Returns:
        ``model``, ``objective``, ``devices``, ``notes``, ``saved`` (what the file holds, in one
        line), ``plan`` (the row's label), ``verdict``,
        ``bound_ms`` of the profile's model, ``wall_s``, ``file`` and ``rows``: for each candidate
        ``label``, ``alone`` (a single device), ``also`` (other candidates that are the same
        placement), ``predicted_ms``, ``error`` (why it was not measured, or an empty string),
        ``warning`` (why its measurement decides nothing, or an empty string), and, None where there
        is an error, ``measured_ms``, ``speedup`` over the fastest feasible single device,
        ``noise``, ``n_submodels``, ``memory_bytes`` that were placed on each device and
        ``held_bytes`` that it reports to hold (None if it does not), for a model with state
        ``prefill_ms`` and ``token_ms``, and for throughput ``requests_per_s``, ``requests`` in
        flight and ``streams``, of several models also ``models``: of each ``inferences_per_s`` and
        ``latency_ms``; and ``memory``, see ``report_memory``. With ``export`` also ``exported``,
        the folder. With ``phases`` also ``phases``: ``verdict``, and where two placements were
        measured ``prefill`` and ``decode``, their labels, ``wins``, and ``files`` if they do; their
        row is ``"phases"``, with ``handover_ms``, and ``plan`` is that row if they win. With
        ``sweep`` also ``sweep``: ``verdict``, ``plan`` (the row's label, None if none wins),
        ``tolerance`` and ``rows``, whose ``speedup`` is over the plan.

    Raises:
        UserError: ``out`` cannot be written, the problem cannot be split or profiled, all devices
            together cannot hold the model, or ``phases`` does not apply.
        EngineError: No candidate fits and runs.
    """
    started = perf_counter()
    # Minutes of measuring follow: what can fail fails before.
    goal = find_objective(objective)
    if phases and sweep:
        raise UserError("a sweep varies one placement: leave the sweep or phases out")
    folder = check_output_folder(out)
    if export is not None:
        check_output_folder(export)
    backend, notes = build_backend_to_split(
        ModelSpec(model, granularity, "folded", shapes, data_shapes, scenario),
        devices,
        replace(QUICK, objective=objective),
        quiet,
        tolerance,
        constraints,
    )
    problem = backend.problem
    check_room(problem)
    if phases:
        check_phases(problem, goal)
    if not quiet:
        print(describe_steps(backend, time_limit_s, refresh, sweep), file=sys.stderr, flush=True)
    stem = folder / f"plan-{safe_name(problem.units.graph.model)}{goal.suffix}"
    # A rough profile suffices: what is solved on it is measured before it is handed over.
    with closing(backend), explain_interrupt(backend, quick=True):
        costs = load_or_measure(backend, refresh, quiet, quick=True)
        found = select(backend, costs, time_limit_s, phases, quiet)
        tolerance = backend.tolerance
        notes += describe_tolerance(problem, tolerance)
        document = make_document(problem, found, objective, notes, stem)
        try:
            tried = sweep_properties(backend, found, quiet) if sweep else None
        except KeyboardInterrupt:
            document["wall_s"] = perf_counter() - started
            write_files(document, problem, costs, found)
            raise KeyboardInterrupt(f"{stem}.json is the plan without the sweep") from None
    if tried:
        document["sweep"] = to_plain(tried.report(tolerance))
        problem, found = tried.apply(problem, found)
        document["saved"] = tried.describe(problem) or document["saved"]
    document["wall_s"] = perf_counter() - started
    if phases:
        document["phases"] = report_phases(found.pair, found.chosen.label, stem)
    # A full disk must not lose minutes of measuring: a file that cannot be kept is a warning.
    with keep_if_possible("the plan's report"):
        write_files(document, problem, costs, found)
    if export is not None:
        export_winner(problem, found, export, model, shapes)
        document["exported"] = str(export)
    return document


def describe_steps(
    backend: MeasuringBackend, time_limit_s: float, refresh: bool, sweep: bool
) -> str:
    """Describe what a plan takes, before minutes of it begin; its bars estimate each step."""
    kept = None if refresh else kept_profile(backend, quick=True)
    measurements = n_measurements(backend.problem, QUICK)
    steps = [
        "the profile that is kept" if kept else f"a profile of {measurements} measurements",
        f"solvers, {time_limit_s:.0f} s for each program at most",
        f"at most {backend.protocol.final_compiles} rounds of measurements of all candidates, and "
        "again of the best split",
        *(["a sweep of properties"] if sweep else []),
    ]
    return f"{len(steps)} steps: {'; '.join(steps)}"


def describe_tolerance(problem: Problem, tolerance: float) -> list[str]:
    """Describe how far outputs were allowed to differ, where that is more than f32 needs."""
    if tolerance == F32_TOLERANCE:
        return []
    reference = problem.device_names[problem.reference_device]
    return [f"outputs may differ from those of {reference} by {tolerance:.2g} relative"]


def make_document(
    problem: Problem, found: Selection, objective: str, notes: Sequence[str], stem: Path
) -> Document:
    """The report; see ``plan``."""
    rows = [*found.rows, found.pair.row] if found.pair else found.rows
    candidates = [*found.candidates, found.pair.candidate] if found.pair else found.candidates
    document: Document = to_plain(
        {
            "model": problem.units.graph.model,
            "objective": objective,
            "devices": problem.device_names,
            "notes": [
                *collect_cautions(problem.devices),
                *describe_fit(problem),
                *describe_use(problem, found.winner.label, found.winner.assignment),
                *notes,
            ],
            "saved": describe_winner(problem, found),
            "plan": found.winner.label,
            "verdict": state_plan_verdict(found.rows, found.chosen.label),
            "bound_ms": found.bound_ms,
            "file": f"{stem}.json",
            "rows": rows,
            "memory": report_memory(
                problem,
                {name: one.assignment for one in candidates for name in (one.label, *one.also)},
            ),
        }
    )
    return document


def describe_winner(problem: Problem, found: Selection) -> str:
    """Describe what is saved, in one line."""
    alone = [row for row in found.rows if row["alone"] and row["speedup"] is not None]
    best = max(alone, key=lambda row: row["speedup"])["label"] if alone else ""
    if found.pair is not None and found.winner is not found.chosen:
        gain = describe_gain(found.pair.row["speedup"], found.pair.row["noise"], best)
        return f"Saved: two placements, one for prompts and one for tokens{gain}"
    row = next(row for row in found.rows if row["label"] == found.chosen.label)
    placement = Placement.of(problem, found.chosen.assignment)
    return describe_saved(placement, row["speedup"], row["noise"], best)


def make_placement(problem: Problem, chosen: Candidate, streams: int | None) -> Placement:
    """The placement to hand over; a device alone keeps the streams that it was measured with."""
    placement = Placement.of(problem, chosen.assignment)
    if streams is None or not chosen.alone:
        return placement
    devices, device = list(problem.devices), int(chosen.assignment[0])
    devices[device] = with_streams(devices[device], streams)
    return replace(placement, devices=tuple(devices))


def write_files(document: Document, problem: Problem, costs: CostTable, found: Selection) -> None:
    """Write the placement, the costs that it was solved for, the report, and a picture."""
    from placement_gym.view.figures.placement import draw_placement
    from placement_gym.view.figures.style import draw_if_possible

    file = Path(document["file"])
    make_output_folder(file.parent)
    make_placement(problem, found.chosen, found.result.streams).save(file, follow=False)
    write_text(costs_beside(file), json.dumps(costs.to_json()) + "\n")
    write_text(file.with_name(f"{file.stem}-report.json"), json.dumps(document, indent=1) + "\n")
    phase_files = document.get("phases", {}).get("files", [])
    for placement, phase_file in zip(list_phases(problem, found), phase_files, strict=True):
        placement.save(phase_file, follow=False)
    title = [
        document["saved"],
        f"{document['model']}: {document['verdict']}",
        *collect_cautions(problem.devices),
    ]
    draw = partial(draw_placement, problem, found.chosen.assignment, "\n".join(title))
    if note := draw_if_possible(draw, file.with_suffix(".png")):
        warn_user(note)


def list_phases(problem: Problem, found: Selection) -> list[Placement]:
    """The placements of prompts and of tokens, where two win; else none."""
    if found.winner is found.chosen:
        return []
    return [Placement.of(problem, one) for one in found.winner.assignment]


def export_winner(
    problem: Problem, found: Selection, folder: str | Path, model: Any, shapes: Shapes | None
) -> None:
    """Write what OpenVINO alone needs to run the plan."""
    if phases := list_phases(problem, found):
        prefill, decode = phases
        export_phases(prefill, decode, folder, model, shapes)
        return
    placement = make_placement(problem, found.chosen, found.result.streams)
    export_placement(placement, folder, model, shapes, requests=found.result.requests)
