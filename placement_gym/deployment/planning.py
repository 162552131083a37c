"""Find the placement to deploy: profile, propose candidates, measure them, save the fastest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from math import isfinite, nan
from pathlib import Path
from time import perf_counter
from typing import Any

from placement_gym.backends.measured import (
    QUICK,
    MeasuredBackend,
    explain_interrupt,
    kept_profile,
    load_or_measure,
    n_measurements,
)
from placement_gym.backends.simulated import SimulatedBackend
from placement_gym.base import (
    EngineError,
    check_output_folder,
    check_positive,
    keep_results,
    make_output_folder,
    progress_bar,
    replace_files,
    safe_name,
    show_step,
    suggest_keywords,
    warn_user,
    write_json,
)
from placement_gym.deployment.candidates import (
    Candidate,
    add_variants,
    collect,
    propose_candidates,
    propose_pipelines,
)
from placement_gym.deployment.phases import add_phase_candidates, measure_phases
from placement_gym.deployment.plan_report import (
    PHASE_SUFFIXES,
    Document,
    check_room,
    make_document,
)
from placement_gym.deployment.profiling import build_divisible_backend
from placement_gym.deployment.selection import (
    Selection,
    choose,
    find_candidate,
    make_rows,
    measure_candidates,
    state_plan_verdict,
)
from placement_gym.hardware import DevicesArgument, collect_cautions
from placement_gym.models import InputsArgument, ModelSpec, Shapes
from placement_gym.problem import Placement, Problem
from placement_gym.problem.costs import CostTable, name_costs_file, parse_schedule
from placement_gym.view.figures import draw_if_possible, draw_placement
from placement_gym.workloads import find_objective

TYPICAL_SPLITS = 5
"""Number of candidates other than single devices that estimates of time assume."""


@suggest_keywords
def plan(  # noqa: D417  keywords as for gym.make share a line
    model: Any = "resnet",
    devices: DevicesArgument = None,
    *,
    granularity: str = "fused",
    shapes: Shapes | None = None,
    inputs: InputsArgument | None = None,
    scenario: str | None = None,
    extension: str | Path | None = None,
    tolerance: float | None = None,
    objective: str = "latency",
    constraints: Any = None,
    time_limit_s: float = 10.0,
    phases: bool = False,
    out: str | Path = "results",
    export: str | Path | None = None,
    refresh: bool = False,
    quiet: bool = False,
) -> Document:
    """Find the placement to deploy: solve on a profile, measure the candidates, save the fastest.

    Candidates are every single device, the solvers' placements, and the best prefix and window by
    the twin. If memory is limited, also placements that fill devices in order, as other tools and
    HETERO's ``PIPELINE_PARALLEL`` do, and variants of splits that nearly fill a device. The memory
    that an integrated device reports is not a limit. All candidates that fit are measured together.
    The plan is the fastest split if it beats every single device by more than the noise, otherwise
    the fastest single device.

    With objective ``"throughput"`` candidates are single devices, with their best numbers of
    streams and requests, and the best contiguous splits by the profile; for several models also
    whole models, in the best assignment and on the devices that OpenVINO's AUTO chooses. Times are
    those between two results, or two rounds of several models.

    With ``phases`` the fastest placement for the prompt and the fastest for the tokens are measured
    together, with the transfer of the state, next to the best single placement. Devices hold the
    weights of both.

    ``out`` gets ``plan-MODEL.json``, the placement; ``plan-MODEL-costs.json``, its costs for views;
    ``plan-MODEL-report.json``; and a picture.

    Args:
        model, devices, shapes, inputs, scenario, extension, tolerance, objective: As for
            ``gym.make``.
        granularity: As for ``gym.make``; a finer one is used if there are fewer than four units.
        constraints: As for ``gym.make``; single devices that they forbid are rows with an error.
        time_limit_s: Time limit of the mixed-integer program.
        phases: Also try one placement for the prompt and another for tokens, see
            ``compile_phases``; the model needs state.
        out: Folder for the results.
        export: Folder for an export of the plan for OpenVINO alone; see ``export_placement``.
        refresh: Profile again, even if this machine has a profile.
        quiet: Show no progress.

    Returns:
        ``model``, ``objective``, ``devices``, ``notes``, ``saved`` (the content of the file in one
        line), ``plan`` (the row's label), ``verdict``, ``bound_ms`` (a lower bound of predictions),
        ``wall_s``, ``file``, ``unsaved`` (why files could not be written, with ``file`` None; or
        ""), ``meanings`` of the candidates' names, ``memory`` (``devices`` with their limits, and
        ``placements`` with the bytes of weights and state on each device) and ``rows``.

        Of each candidate: ``label``, ``alone`` (a single device), ``also`` (other candidates that
        are the same placement), ``predicted_ms``, ``error`` (why it was not measured, or an empty
        string), ``warning`` (why its measurement decides nothing, or an empty string); None with an
        error: ``measured_ms``, ``speedup`` over the fastest feasible single device, ``noise`` and
        ``n_submodels``; without one also ``memory_bytes`` placed on each device and ``held_bytes``
        that it reports (None if it does not). For a model with state also ``prefill_ms`` and
        ``token_ms``; for throughput ``requests_per_s``, ``requests`` in flight, ``streams`` and, of
        several models, ``models`` with ``inferences_per_s`` and ``latency_ms`` each.

        With ``export`` also ``exported``, the folder. With ``phases`` also ``phases``: a
        ``verdict``, and if two placements were measured their labels ``prefill`` and ``decode``,
        ``wins``, and ``files`` if they win. Their row, and the plan if they win, is ``"phases"``,
        with ``handover_ms``.

    Raises:
        UserError: ``out`` cannot be written, the problem cannot be split or profiled, all devices
            together cannot hold the model, or ``phases`` does not apply.
        EngineError: No candidate fits and runs.
    """
    start_s = perf_counter()
    goal = find_objective(objective)
    check_positive("time_limit_s", time_limit_s)
    # Fail before minutes of measuring if possible.
    folder = check_output_folder(out)
    if export is not None:
        check_output_folder(export)
    spec = ModelSpec(model, granularity, "folded", shapes, inputs, scenario, extension)
    protocol = replace(QUICK, objective=objective)
    backend, notes = build_divisible_backend(spec, devices, protocol, quiet, tolerance, constraints)
    problem = backend.problem
    check_room(problem)
    if phases:
        goal.check_phases(problem.units.graph.request)
    stem = folder / f"plan-{safe_name(problem.units.graph.model)}{goal.suffix}"
    with closing(backend), explain_interrupt(backend, quick=True):
        if not quiet:
            print(describe_steps(backend, time_limit_s, refresh), file=sys.stderr, flush=True)
        # A rough profile suffices to propose candidates: rounds of measurements compare them.
        costs = load_or_measure(backend, refresh, quiet, quick=True)
        candidates, bound_ms = propose(backend, costs, time_limit_s, phases, quiet)
        measured, stopped = measure_candidates(backend, candidates, quiet)
        selection = select(backend, measured, stopped, phases, quiet)
        document = make_document(backend, selection, bound_ms, notes, stem)
    document["wall_s"] = perf_counter() - start_s
    # On a full disk the document still says what was measured.
    with keep_results(document):
        write_files(document, problem, costs, selection)
    if selection.stopped:  # after the results so far are saved
        raise KeyboardInterrupt(document["unsaved"] or f"{stem}.json is {selection.stopped}")
    if export is not None and not document["unsaved"]:
        with keep_results(document, "exported"):
            export_winner(problem, selection, export, spec)
            document["exported"] = str(export)
    return document


def propose(
    backend: MeasuredBackend, costs: CostTable, time_limit_s: float, phases: bool, quiet: bool
) -> tuple[list[Candidate], float]:
    """Propose candidates by a profile, and a lower bound of the latency in it."""
    goal = backend.protocol.goal
    twin = SimulatedBackend(backend.problem, costs, parse_schedule("serial", goal.name))
    with progress_bar(None, "", quiet, description="solving"):
        # Throughput is decided by the busiest device, as requests overlap.
        propose_by_goal = propose_candidates if goal.serial else propose_pipelines
        candidates, bound_ms = propose_by_goal(twin, time_limit_s)
        show_step("varying splits that nearly fill a device")
        candidates = add_variants(twin, candidates)
        if backend.problem.units.graph.models:
            with suppress(EngineError):  # without AUTO the others are compared
                candidates = collect(twin, [("AUTO", backend.own_choice("AUTO"))], candidates)
        if phases:
            candidates = add_phase_candidates(backend, twin, candidates, time_limit_s)
    return candidates, bound_ms


def select(
    backend: MeasuredBackend,
    candidates: Sequence[Candidate],
    stopped: str,
    phases: bool,
    quiet: bool,
) -> Selection:
    """Choose among measured candidates, and measure the pair for two phases if requested."""
    rows = make_rows(candidates, backend.problem.units.graph.models)
    winner = chosen = find_candidate(candidates, choose(rows))
    verdict = state_plan_verdict(rows, chosen.label)
    report: dict[str, Any] = {}
    if phases and not stopped:
        try:
            candidates, report = measure_phases(backend, candidates, chosen, quiet)
            winner = candidates[-1] if report.get("wins") else chosen
        except KeyboardInterrupt:
            stopped = "the best single placement: no two were measured"
    return Selection(candidates, chosen, winner, verdict, report, stopped)


def describe_steps(backend: MeasuredBackend, time_limit_s: float, refresh: bool) -> str:
    """Describe the steps of a plan and their times, estimated from one measurement."""
    once_s, in_a_race_s = time_measurement(backend)
    n = n_measurements(backend.problem, QUICK)
    kept = not refresh and kept_profile(backend, quick=True)
    profile = f"a profile of {n} measurements{say_seconds(n * once_s)}"
    race_s = (len(backend.problem.devices) + TYPICAL_SPLITS) * in_a_race_s
    again_s = 2 * in_a_race_s
    rounds, again = map(backend.protocol.most_rounds, (race_s, again_s))
    return (
        f"4 steps: {'the kept profile' if kept else profile}; "
        f"solvers, at most {time_limit_s:.0f} s for each program; "
        f"at most {rounds} rounds of measurements of all candidates{say_seconds(rounds * race_s)}; "
        f"the best split again{say_seconds(again * again_s)}"
    )


def time_measurement(backend: MeasuredBackend) -> tuple[float, float]:
    """Time a measurement of the reference device, and its part of a round, in s; nan if it fails.

    A measurement times itself and the reference; a round times each candidate, less often.
    """
    problem, protocol = backend.problem, backend.protocol
    measured = backend.evaluate_ignoring_limits(problem.single(problem.reference_device))
    if measured.error:
        return nan, nan
    sample_s = measured.measure_s / (2 * protocol.repeats)
    in_a_race_s = measured.compile_s + sample_s * protocol.final_rounds
    return measured.compile_s + measured.measure_s, in_a_race_s


def say_seconds(seconds: float) -> str:
    """Format the approximate time of a step, if it is known."""
    return f" (about {max(seconds, 1.0):.0f} s)" if isfinite(seconds) else ""


def list_placements(problem: Problem, selection: Selection) -> dict[str, Placement]:
    """Map suffixes of file names to placements: the chosen one, and the pair if it wins.

    A single device keeps its measured number of streams.
    """
    chosen, winner = selection.chosen, selection.winner
    make, streams = partial(Placement.from_assignment, problem), chosen.result.streams
    placement = make(chosen.assignment)
    if streams is not None and chosen.alone:
        devices, device = list(problem.devices), int(chosen.assignment[0])
        devices[device] = devices[device].with_streams(streams)
        placement = replace(placement, devices=tuple(devices))
    phases = () if winner is chosen else map(make, winner.assignment)
    return {"": placement, **dict(zip(PHASE_SUFFIXES, phases, strict=False))}


def write_files(
    document: Document, problem: Problem, costs: CostTable, selection: Selection
) -> None:
    """Write the placements, their costs, the report and a picture."""
    file = Path(document["file"])
    with replace_files(make_output_folder(file.parent)) as folder:
        for suffix, placement in list_placements(problem, selection).items():
            placement.save(folder / f"{file.stem}{suffix}.json")
        costs.save(folder / name_costs_file(file).name)
        write_json(folder / f"{file.stem}-report.json", document)
    title = [
        document["saved"],
        f"{document['model']}: {document['verdict']}",
        *collect_cautions(problem.devices),
    ]
    draw = partial(draw_placement, problem, selection.chosen.assignment, "\n".join(title))
    if note := draw_if_possible(draw, file.with_suffix(".png")):
        warn_user(note)


def export_winner(
    problem: Problem, selection: Selection, folder: str | Path, spec: ModelSpec
) -> None:
    """Export the plan for OpenVINO alone."""
    from placement_gym.deployment.export import export_phases, export_placement

    given = {name: getattr(spec, name) for name in ("model", "shapes", "inputs", "extension")}
    placement, *phases = list_placements(problem, selection).values()
    if phases:
        prefill, decode = phases
        export_phases(prefill, decode, folder, **given)
    else:
        export_placement(placement, folder, requests=selection.chosen.result.requests, **given)
