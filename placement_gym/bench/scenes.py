"""Scenes of the view, from placement files and from runs in a folder of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from placement_gym.base import UserError, is_folder
from placement_gym.bench.run import Json, describe_devices, group_by, load_runs, read_make_kwargs
from placement_gym.models import Shapes, model_of_placement
from placement_gym.problem import Placement, describe_saved, parse_assignment
from placement_gym.problem.costs import name_costs_file
from placement_gym.view import Scene, StatedPlacement, build_problem, make_scene


def open_scene(
    sources: Sequence[str | Path],
    model: str | None = None,
    problem: int | None = None,
    shapes: Shapes | None = None,
    extension: str | Path | None = None,
) -> Scene:
    """Read placements of one model, and what simulates them.

    Costs and schedule are those of the runs or plans, else analytic costs. The fastest single
    device that may run the model is added for comparison.

    Args:
        sources: Placement files, and folders with ``results.jsonl``, of which the fastest run of
            each agent is taken.
        model: As for ``gym.make``; None takes the one that the sources name.
        problem: Number of the problem, from 1, in a folder that has several.
        shapes: As for ``gym.make``; None takes those of the runs.
        extension: As for ``gym.make``; those of runs are not loaded, as they are code.

    Raises:
        UserError: A source cannot be read, or the placements differ in model or devices.
    """
    overrides = {"model": model, "shapes": shapes, "extension": extension}
    changes = {key: value for key, value in overrides.items() if value is not None}
    with model_of_placement(model):
        candidates = [
            placement
            for source in sources
            for placement in (
                read_folder(Path(source), changes, problem)
                if is_folder(source)
                else read_file(Path(source), changes)
            )
        ]
        return make_scene(candidates)


def open_runs(rows: Sequence[Json]) -> Scene:
    """The fastest placement of each agent on one problem, and what simulates them."""
    return make_scene(find_fastest(rows, {}))


def read_file(path: Path, changes: Mapping[str, Any]) -> list[StatedPlacement]:
    """Read the placement of a file, with the costs next to it, if there are any."""
    placement, costs = Placement.load(path), name_costs_file(path)
    kwargs: dict[str, Any] = {
        **placement.spec.to_json(),
        "devices": placement.devices,
        **changes,
    }
    if costs.is_file():
        # Another model is explained by the placement: the user has not named the costs.
        placement.fit(build_problem({**kwargs, "granularity": "op"}).problem.units.graph)
        kwargs["costs"] = str(costs)
    return [StatedPlacement(path.stem, placement, kwargs, saved=describe_saved(placement))]


def read_folder(
    path: Path, changes: Mapping[str, Any], number: int | None
) -> list[StatedPlacement]:
    """Read the fastest run of each agent on one problem of a folder, the fastest first."""
    rows = [row for row in load_runs(path) if row["placement"] and row["latency_ms"]]
    problems = [*group_by("problem", rows).values()]
    if not problems:
        raise UserError(f"{path} has no runs with a placement: name a folder of results or a file")
    if number is None and len(problems) > 1:
        problem_list = "; ".join(
            f"{index}: {row['model']} on {describe_devices(row['devices'])}"
            for index, (*_, row) in enumerate(problems, start=1)
        )
        raise UserError(f"{path} has {len(problems)} problems, choose --problem: {problem_list}")
    if number is not None and number > len(problems):
        raise UserError(f"{path} has {len(problems)} problems, not {number}")
    return find_fastest(problems[(number or 1) - 1], changes)


def find_fastest(rows: Sequence[Json], changes: Mapping[str, Any]) -> list[StatedPlacement]:
    """Find the fastest run of each agent on one problem, the fastest first."""
    best: dict[str, Json] = {}
    for row in sorted(rows, key=lambda row: float(row["latency_ms"])):
        best.setdefault(row["label"], row)
    first = next(iter(best.values()))
    measured = first["costs_fingerprint"] is None
    kwargs = {**read_make_kwargs(first), "devices": first["devices"], **changes}
    problem = build_problem(kwargs).problem
    graph = str(kwargs.get("graph", "folded"))
    return [
        StatedPlacement(
            label,
            Placement.from_assignment(problem, parse_assignment(row["placement"], problem), graph),
            kwargs,
            f"{'measured' if measured else 'simulated'} in the run: {row['latency_ms']:.4g} ms",
            row["latency_ms"] if measured else None,
            row["speedup_vs_best_single"],
        )
        for label, row in best.items()
    ]
