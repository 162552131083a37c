"""A plan for an engineer: profile, solve, measure the best few, hand over the fastest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from placement_gym.arguments import check_objective
from placement_gym.arrays import IntArray
from placement_gym.backends.measured.measuring import MeasuringBackend
from placement_gym.backends.measured.stage_costs import load_or_measure_costs
from placement_gym.backends.measured.timing_protocol import QUICK
from placement_gym.backends.protocol import Measurement
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.bench.run.rows import to_plain
from placement_gym.costs.semantics import parse_schedule
from placement_gym.costs.table import CostTable, costs_beside
from placement_gym.devices import collect_cautions
from placement_gym.errors import warn_user
from placement_gym.files import keep_if_possible, make_output_folder, safe_name, write_text
from placement_gym.models.shapes import Shapes
from placement_gym.pipeline.stage import with_streams
from placement_gym.placement import Placement
from placement_gym.problem import Problem
from placement_gym.progress import progress_bar
from placement_gym.tools.candidates import Candidate, propose_candidates, propose_pipelines
from placement_gym.tools.export import export_phases, export_placement
from placement_gym.tools.granularity import DEFAULT_GRANULARITY, build_backend_to_split
from placement_gym.tools.interruption import explain_interrupt
from placement_gym.tools.memory import (
    check_room,
    describe_fit,
    explain_excess,
    report_memory,
)
from placement_gym.tools.phases import (
    add_phase_candidates,
    check_phases,
    measure_phases,
    report_phases,
)
from placement_gym.tools.plan_rows import choose, make_rows, summarize

Document = dict[str, Any]

MEASURED_MS = 10_000.0
MAX_REPEATS = 64


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
    pictures: str = "png",
    phases: bool = False,
    data_shapes: Shapes | None = None,
) -> Document:
    """Find the placement to deploy: solved on a profile, and measured before it is handed over.

    Candidates are the solvers' placements, the best prefix and window by the twin, and every
    single device; where memory is limited also those that fill devices in order, as other tools
    and HETERO's ``PIPELINE_PARALLEL`` do. All that fit are measured side by side. The plan is the
    fastest split if it beats every single device that may run the model by more than the noise,
    else the fastest single device.
    With objective ``"throughput"`` candidates are the best pipelines by the profile and single
    devices, each of these with the streams and requests that suit it best, and times are those
    between two results; ``Pipeline`` runs such a plan.
    With ``phases`` candidates are also the solver's placements for the prompt alone and for the
    tokens alone, and the fastest one for the prompt with the fastest one for the tokens, the state
    handed over between them, is measured beside the best single placement. Both are compiled, so
    that devices hold the weights of both.
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
        pictures: Kind of the picture: ``"png"``, ``"svg"`` or ``"pdf"``.
        phases: Of a model with state, also plan for a placement of prompts and one of tokens;
            ``compile_phases`` runs them.
        data_shapes: As for ``gym.make``.

    Returns:
        ``model``, ``objective``, ``devices``, ``notes``, ``plan`` (the row's label), ``verdict``,
        ``bound_ms`` of the profile's model, ``wall_s``, ``file`` and ``rows``: for each candidate
        ``label``, ``alone`` (a single device), ``also`` (other candidates that are the same
        placement), ``predicted_ms``, ``error`` (why it was not measured, or an empty string),
        ``doubt`` (why its measurement decides nothing, or an empty string), and, None where there
        is an error, ``measured_ms``, ``speedup`` over the fastest feasible single device,
        ``noise``, ``n_submodels``, for a model with state ``prefill_ms`` and ``token_ms``, and for
        throughput ``requests_per_s``, ``requests`` in flight and ``streams``; and ``memory``, see
        ``report_memory``. With ``export`` also ``exported``, the folder. With ``phases`` also
        ``phases``: ``verdict``, and where two placements were measured ``prefill`` and ``decode``,
        their labels, ``wins``, and ``files`` if they do; their row is ``"phases"``, with
        ``handover_ms``, and ``plan`` is that row if they win.

    Raises:
        UserError: ``out`` cannot be written, the problem cannot be split or profiled, all devices
            together cannot hold the model, or ``phases`` does not apply.
        EngineError: No candidate fits and runs.
    """
    started = perf_counter()
    check_objective(objective)
    folder = make_output_folder(out)
    if export is not None:
        make_output_folder(export)
    backend, notes = build_backend_to_split(
        model,
        devices,
        granularity,
        replace(QUICK, objective=objective),
        quiet,
        shapes,
        scenario,
        data_shapes,
    )
    problem = backend.problem
    check_room(problem)
    if phases:
        check_phases(problem, objective)
    with closing(backend), explain_interrupt(backend, quick=True):
        costs = load_or_measure_costs(backend, refresh, quiet, True)
        twin = SimulatedBackend(problem, costs, parse_schedule("serial", objective))
        propose = propose_pipelines if objective == "throughput" else propose_candidates
        with progress_bar(None, "", quiet, description=f"solving, at most {time_limit_s:.0f} s"):
            candidates, bound_ms = propose(twin, time_limit_s)
        if phases:
            candidates = add_phase_candidates(backend, twin, candidates, time_limit_s)
        with closing(with_enough_repeats(backend, candidates, objective)) as thorough:
            measured, errors = measure(thorough, candidates, quiet)
            rows = make_rows(candidates, measured, errors)
            label = choose(rows)
            pair = measure_phases(thorough, candidates, measured, rows, label) if phases else None
    chosen = next(candidate for candidate in candidates if candidate.label == label)
    winner = pair.candidate if pair and pair.wins else chosen
    candidates += [pair.candidate] if pair else []
    kind = "" if objective == "latency" else f"-{objective}"
    name = f"plan-{safe_name(problem.units.graph.model)}{kind}"
    document: Document = to_plain(
        {
            "model": problem.units.graph.model,
            "objective": objective,
            "devices": problem.device_names,
            "notes": [*collect_cautions(problem.devices), *describe_fit(problem), *notes],
            "plan": winner.label,
            "verdict": summarize(rows, label),
            "bound_ms": bound_ms,
            "wall_s": perf_counter() - started,
            "file": str(folder / f"{name}.json"),
            "rows": [*rows, pair.row] if pair else rows,
            "memory": report_memory(
                problem,
                {name: one.assignment for one in candidates for name in (one.label, *one.also)},
            ),
            **({"phases": report_phases(pair, label, folder / name)} if phases else {}),
        }
    )
    placement = make_placement(problem, chosen, measured[label].streams)
    with keep_if_possible("the plan's report"):
        write_report(document, problem, costs, chosen.assignment, placement, folder, pictures)
        if winner is not chosen:
            for one, file in zip(winner.assignment, document["phases"]["files"], strict=True):
                Placement.of(problem, one).save(file, follow=False)
    if export is not None:
        if winner is chosen:
            requests = measured[label].requests
            export_placement(placement, export, model, shapes, requests=requests)
        else:
            prefill, decode = (Placement.of(problem, one) for one in winner.assignment)
            export_phases(prefill, decode, export, model, shapes)
        document["exported"] = str(export)
    return document


def with_enough_repeats(
    backend: MeasuringBackend, candidates: Sequence[Candidate], objective: str = "latency"
) -> MeasuringBackend:
    """The backend with as many inferences, or windows, of each candidate as there is time for."""
    protocol = replace(QUICK, objective=objective)
    results = protocol.window if protocol.in_flight else 1
    round_ms = max(sum(c.predicted_ms for c in candidates), 1e-3) * QUICK.final_compiles * results
    repeats = int(np.clip(MEASURED_MS / round_ms, QUICK.final_repeats, MAX_REPEATS))
    return backend.with_protocol(replace(protocol, final_repeats=repeats))


def measure(
    backend: MeasuringBackend, candidates: Sequence[Candidate], quiet: bool
) -> tuple[dict[str, Measurement], dict[str, str]]:
    """Measure every candidate that memory allows.

    The first, to which all others are compared, is the fastest single device by the twin.

    Returns:
        Label -> measurement of the candidates that ran, and label -> error of the others.
    """
    errors = {
        c.label: backend.infeasibility(c.assignment)
        or explain_excess(backend.problem, c.assignment)
        for c in candidates
    }
    allowed = [candidate for candidate in candidates if not errors[candidate.label]]
    allowed.sort(key=lambda candidate: (not candidate.alone, candidate.predicted_ms))
    said, n_rounds = f"measuring {len(allowed)} candidates", backend.protocol.final_compiles
    with progress_bar(n_rounds, "rounds", quiet, description=said) as progress:
        backend.on_rounds = lambda done: progress.update(progress.task_ids[0], completed=done)
        try:
            measured = backend.remeasure([candidate.assignment for candidate in allowed])
        except RuntimeError:
            for candidate in allowed:
                error = backend.evaluate_ignoring_limits(candidate.assignment).error
                errors[candidate.label] = error and f"does not run: {error}"
            allowed = [candidate for candidate in allowed if not errors[candidate.label]]
            measured = backend.remeasure([c.assignment for c in allowed]) if allowed else []
    return (
        {candidate.label: m for candidate, m in zip(allowed, measured, strict=True)},
        {label: error for label, error in errors.items() if error},
    )


def make_placement(problem: Problem, chosen: Candidate, streams: int | None) -> Placement:
    """The placement to hand over; a device alone keeps the streams that it was measured with."""
    placement = Placement.of(problem, chosen.assignment)
    if streams is None or not chosen.alone:
        return placement
    devices, device = list(problem.devices), int(chosen.assignment[0])
    devices[device] = with_streams(devices[device], streams)
    return replace(placement, devices=tuple(devices))


def write_report(
    document: Document,
    problem: Problem,
    costs: CostTable,
    assignment: IntArray,
    placement: Placement,
    folder: Path,
    pictures: str,
) -> None:
    """Write the placement, the costs that it was solved for, the report, and a picture."""
    from placement_gym.plots.placement import draw_placement
    from placement_gym.plots.style import draw_if_possible

    name = Path(document["file"]).stem
    placement.save(document["file"], follow=False)
    write_text(costs_beside(document["file"]), json.dumps(costs.to_json()) + "\n")
    title = [f"{document['model']}: {document['verdict']}", *collect_cautions(problem.devices)]
    write_text(folder / f"{name}-report.json", json.dumps(document, indent=1) + "\n")
    draw = partial(draw_placement, problem, assignment, "\n".join(title))
    if note := draw_if_possible(draw, folder / f"{name}.{pictures}"):
        warn_user(note)
