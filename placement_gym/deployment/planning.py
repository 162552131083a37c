"""Find the placement to deploy: profile, solve, measure the best few, save the fastest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from placement_gym.backends.measured import (
    F32_TOLERANCE,
    QUICK,
    MeasuredBackend,
    explain_interrupt,
    kept_profile,
    load_or_measure,
    n_measurements,
)
from placement_gym.base import (
    check_output_folder,
    flat_keywords,
    keep_results,
    make_output_folder,
    replace_files,
    safe_name,
    to_plain,
    warn_user,
    write_json,
)
from placement_gym.deployment.candidates import Candidate, explain_candidates
from placement_gym.deployment.memory import check_room, describe_fit, describe_use, report_memory
from placement_gym.deployment.phases import report_phases
from placement_gym.deployment.plan_rows import state_plan_verdict
from placement_gym.deployment.problems import PlanOptions, ProblemOptions, build_backend_to_split
from placement_gym.deployment.selection import Selection, select
from placement_gym.hardware import collect_cautions
from placement_gym.models import ModelSpec
from placement_gym.problem import Placement, Problem, describe_gain, describe_saved
from placement_gym.problem.costs import CostTable, costs_beside
from placement_gym.view.figures import draw_if_possible, draw_placement

RIVALS = 5
"""Candidates other than single devices, for estimates of time: typical of most problems."""


@flat_keywords(problem=ProblemOptions, options=PlanOptions)
def plan(  # noqa: D417  the keywords of both groups are described
    model: Any = "resnet",
    devices: Any = None,
    *,
    problem: ProblemOptions,
    options: PlanOptions,
    out: str | Path = "results",
    export: str | Path | None = None,
    refresh: bool = False,
    quiet: bool = False,
) -> Document:
    """Find the placement to deploy: solve on a profile, measure the candidates, save the fastest.

    Candidates are the solvers' placements, the best prefix and window by the twin, and every
    single device. If memory is limited, placements that fill devices in order, as other tools and
    HETERO's ``PIPELINE_PARALLEL`` do, are candidates too, and variants of splits that nearly fill a
    device, see ``candidates``. The memory that an integrated device reports is not a limit:
    candidates may exceed it. All candidates that fit are measured together. The plan is the fastest
    split if it beats every single device that may run the model by more than the noise, otherwise
    the fastest single device.

    With objective ``"throughput"`` candidates are the best contiguous splits by the profile and
    single devices with their best numbers of streams and requests. Times are those between two
    results; ``ov.AsyncInferQueue`` over ``compile_model`` runs such a plan. For several models they
    are the times between two rounds, candidates are also whole models on their best devices and on
    those that OpenVINO's AUTO chooses, and ``split_placement`` returns the plan of each model.

    With ``phases`` the fastest placement for the prompt together with the fastest for the tokens,
    including the transfer of the state, is measured next to the best single placement. Devices hold
    the weights of both.

    ``out`` gets ``plan-MODEL.json``, the placement; ``plan-MODEL-costs.json``, its costs, which a
    view reads; ``plan-MODEL-report.json``; and a picture.

    Args:
        model: As for ``gym.make``.
        devices: As for ``gym.make``.
        out: Folder for the results.
        export: Folder for an export of the plan for OpenVINO alone; see ``export_placement``.
        refresh: Profile again, even if this machine has a profile.
        quiet: Show no progress.
        granularity: As for ``gym.make``; a finer one is used if there are fewer than four units.
        shapes: As for ``gym.make``.
        inputs: As for ``gym.make``.
        scenario: As for ``gym.make``.
        extension: As for ``gym.make``.
        tolerance: As for ``gym.make``.
        objective: As for ``gym.make``.
        constraints: As for ``gym.make``; single devices that they forbid are rows with an error.
        time_limit_s: Time limit of the mixed-integer program.
        phases: For a model with state: also try one placement for the prompt and another for
            tokens; ``compile_phases`` runs them.

    Returns:
        ``model``, ``objective``, ``devices``, ``notes``, ``saved`` (the content of the file in one
        line), ``plan`` (the row's label), ``verdict``,
        ``bound_ms`` of the profile's model, ``wall_s``, ``file``, ``unsaved`` (why files of the
        plan could not be written, and ``file`` is None, or an empty string), ``meanings`` (what
        names of candidates mean) and ``rows``: for each candidate ``label``, ``alone`` (a single
        device), ``also`` (other candidates that are the same placement), ``predicted_ms``,
        ``error`` (why it was not measured, or an empty string),
        ``warning`` (why its measurement decides nothing, or an empty string), and, None where there
        is an error, ``measured_ms``, ``speedup`` over the fastest feasible single device,
        ``noise``, ``n_submodels``, ``memory_bytes`` that were placed on each device and
        ``held_bytes`` that it reports to hold (None if it does not), for a model with state
        ``prefill_ms`` and ``token_ms``, and for throughput ``requests_per_s``, ``requests`` in
        flight and ``streams``, of several models also ``models``: of each ``inferences_per_s`` and
        ``latency_ms``; and ``memory``, see ``report_memory``. With ``export`` also ``exported``,
        the folder. With ``phases`` also ``phases``: ``verdict``, and where two placements were
        measured ``prefill`` and ``decode``, their labels, ``wins``, and ``files`` if they do; their
        row is ``"phases"``, with ``handover_ms``, and ``plan`` is that row if they win.

    Raises:
        UserError: ``out`` cannot be written, the problem cannot be split or profiled, all devices
            together cannot hold the model, or ``phases`` does not apply.
        EngineError: No candidate fits and runs.
    """
    start_s = perf_counter()
    # Minutes of measuring follow: fail before them if possible.
    folder = check_output_folder(out)
    if export is not None:
        check_output_folder(export)
    backend, notes = build_backend_to_split(
        problem.make_spec(model),
        devices,
        replace(QUICK, objective=options.objective),
        quiet,
        problem.tolerance,
        options.constraints,
    )
    full_problem = backend.problem
    check_room(full_problem)
    if options.phases:
        options.goal.check_phases(full_problem.units.graph.request)
    stem = folder / f"plan-{safe_name(full_problem.units.graph.model)}{options.goal.suffix}"
    # A rough profile suffices: candidates are measured before one is saved.
    with closing(backend), explain_interrupt(backend, quick=True):
        if not quiet:
            print(describe_steps(backend, options, refresh), file=sys.stderr, flush=True)
        costs = load_or_measure(backend, refresh, quiet, quick=True)
        selection = select(backend, costs, options.time_limit_s, options.phases, quiet)
        notes += describe_tolerance(full_problem, backend.tolerance) + backend.comparison_rules
        stopped = selection.stopped
        notes += [f"stopped: this is {stopped}"] if stopped else []
        document = make_document(full_problem, selection, options.objective, notes, stem)
    document["wall_s"] = perf_counter() - start_s
    if options.phases and not stopped:
        document["phases"] = report_phases(selection.pair, selection.chosen.label, stem)
    # Keep minutes of measuring if the disk is full: the document says what could not be written.
    with keep_results(document):
        write_files(document, full_problem, costs, selection)
    if stopped:
        raise KeyboardInterrupt(document["unsaved"] or f"{stem}.json is {stopped}")
    if export is not None and not document["unsaved"]:
        with keep_results(document, "exported"):
            export_winner(full_problem, selection, export, problem.make_spec(model))
            document["exported"] = str(export)
    return document


def describe_steps(backend: MeasuredBackend, options: PlanOptions, refresh: bool) -> str:
    """Describe the steps of a plan and their times, estimated from one measurement.

    Progress bars estimate each step while it runs.
    """
    once_s, in_a_race_s = time_measurement(backend)
    profile = None if refresh else kept_profile(backend, quick=True)
    measurements = n_measurements(backend.problem, QUICK)
    race_s = (len(backend.problem.devices) + RIVALS) * in_a_race_s
    again_s = 2 * in_a_race_s
    rounds, again = map(backend.protocol.most_rounds, (race_s, again_s))
    steps = [
        "the kept profile"
        if profile
        else f"a profile of {measurements} measurements{say_seconds(measurements * once_s)}",
        f"solvers, at most {options.time_limit_s:.0f} s for each program",
        f"at most {rounds} rounds of measurements of all candidates{say_seconds(rounds * race_s)}",
        f"the best split again{say_seconds(again * again_s)}",
    ]
    return f"{len(steps)} steps: {'; '.join(steps)}"


def time_measurement(backend: MeasuredBackend) -> tuple[float, float]:
    """Time one measurement of the reference device alone, and its share of a round of a race.

    Returns:
        Seconds; nan if it cannot run.
    """
    problem, protocol = backend.problem, backend.protocol
    alone = np.full(problem.n_units, problem.reference_device)
    measured = backend.evaluate_ignoring_limits(alone)
    if measured.error:
        return np.nan, np.nan
    # A measurement times itself and the reference; a round times each candidate, less often.
    sample_s = measured.measure_s / (2 * protocol.repeats)
    in_a_race_s = measured.compile_s + sample_s * protocol.final_rounds
    return measured.compile_s + measured.measure_s, in_a_race_s


def say_seconds(seconds: float) -> str:
    """Format the approximate time of a step, if it is known."""
    return f" (about {max(seconds, 1.0):.0f} s)" if np.isfinite(seconds) else ""


def describe_tolerance(problem: Problem, tolerance: float) -> list[str]:
    """Describe the tolerance of outputs if it is larger than that of f32."""
    if tolerance == F32_TOLERANCE:
        return []
    reference = problem.device_names[problem.reference_device]
    return [f"outputs may differ from those of {reference} by {tolerance:.2g} relative"]


Document = dict[str, Any]


def make_document(
    problem: Problem, selection: Selection, objective: str, notes: Sequence[str], stem: Path
) -> Document:
    """Make the report; see ``plan``."""
    rows = [*selection.rows, selection.pair.row] if selection.pair else selection.rows
    candidates = (
        [*selection.candidates, selection.pair.candidate]
        if selection.pair
        else selection.candidates
    )
    document: Document = to_plain(
        {
            "model": problem.units.graph.model,
            "objective": objective,
            "devices": problem.device_names,
            "notes": [
                *collect_cautions(problem.devices),
                *describe_fit(problem),
                *describe_use(problem, selection.winner.label, selection.winner.assignment),
                *notes,
            ],
            "saved": describe_winner(problem, selection),
            "plan": selection.winner.label,
            "verdict": state_plan_verdict(selection.rows, selection.chosen.label),
            "bound_ms": selection.bound_ms,
            "file": f"{stem}.json",
            "unsaved": "",
            "rows": rows,
            "meanings": explain_candidates(candidates),
            "memory": report_memory(
                problem,
                {
                    name: candidate.assignment
                    for candidate in candidates
                    for name in candidate.names
                },
            ),
        }
    )
    return document


def describe_winner(problem: Problem, selection: Selection) -> str:
    """Describe the saved plan in one line."""
    singles = [row for row in selection.rows if row["alone"] and row["speedup"] is not None]
    best = max(singles, key=lambda row: row["speedup"])["label"] if singles else ""
    if selection.pair is not None and selection.winner is not selection.chosen:
        gain = describe_gain(selection.pair.row["speedup"], selection.pair.row["noise"], best)
        return f"Saved: two placements, one for the prompt and one for tokens{gain}"
    row = next(row for row in selection.rows if row["label"] == selection.chosen.label)
    placement = Placement.of(problem, selection.chosen.assignment)
    return describe_saved(placement, row["speedup"], row["noise"], best)


def make_placement(problem: Problem, candidate: Candidate, streams: int | None) -> Placement:
    """Make the placement to save; a single device keeps its measured number of streams."""
    placement = Placement.of(problem, candidate.assignment)
    if streams is None or not candidate.alone:
        return placement
    devices, device = list(problem.devices), int(candidate.assignment[0])
    devices[device] = devices[device].with_streams(streams)
    return replace(placement, devices=tuple(devices))


def write_files(
    document: Document, problem: Problem, costs: CostTable, selection: Selection
) -> None:
    """Write the placement, its costs, the report, and a picture."""
    file = Path(document["file"])
    placement = make_placement(problem, selection.chosen, selection.result.streams)
    phase_files = document.get("phases", {}).get("files", [])
    with replace_files(make_output_folder(file.parent)) as folder:
        placement.save(folder / file.name)
        costs.save(folder / costs_beside(file).name)
        write_json(folder / f"{file.stem}-report.json", document)
        for phase, phase_file in zip(list_phases(problem, selection), phase_files, strict=True):
            phase.save(folder / Path(phase_file).name)
    title = [
        document["saved"],
        f"{document['model']}: {document['verdict']}",
        *collect_cautions(problem.devices),
    ]
    draw = partial(draw_placement, problem, selection.chosen.assignment, "\n".join(title))
    if note := draw_if_possible(draw, file.with_suffix(".png")):
        warn_user(note)


def list_phases(problem: Problem, selection: Selection) -> list[Placement]:
    """Return the placements of the prompt and of tokens if two win, otherwise none."""
    if selection.winner is selection.chosen:
        return []
    return [Placement.of(problem, assignment) for assignment in selection.winner.assignment]


def export_winner(
    problem: Problem, selection: Selection, folder: str | Path, spec: ModelSpec
) -> None:
    """Export the plan for OpenVINO alone."""
    from placement_gym.deployment.export import export_phases, export_placement

    given: dict[str, Any] = {
        name: getattr(spec, name) for name in ("model", "shapes", "inputs", "extension")
    }
    if phases := list_phases(problem, selection):
        prefill, decode = phases
        export_phases(prefill, decode, folder, **given)
        return
    placement = make_placement(problem, selection.chosen, selection.result.streams)
    export_placement(placement, folder, requests=selection.result.requests, **given)
