"""Files of a plan: its report, the placement with its costs and a picture, and the export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from placement_gym.base import make_output_folder, replace_files, to_plain, warn_user, write_json
from placement_gym.deployment.candidates import Candidate, explain_candidates
from placement_gym.deployment.memory import describe_fit, describe_use, report_memory
from placement_gym.deployment.plan_rows import state_plan_verdict
from placement_gym.deployment.selection import Selection
from placement_gym.hardware import collect_cautions
from placement_gym.models import ModelSpec
from placement_gym.problem import Placement, Problem, describe_gain, describe_saved
from placement_gym.problem.costs import CostTable, costs_beside
from placement_gym.view.figures import draw_if_possible, draw_placement

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
