"""The placements that a page shows: placement files, and the runs of a folder of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import (
    SimulatedProblem,
    build_simulated_problem,
    make_problem,
)
from placement_gym.bench.run.rows import Json, load_runs
from placement_gym.bench.study.task import describe_devices, expand_variables
from placement_gym.costs.semantics import parse_schedule
from placement_gym.errors import UserError
from placement_gym.graph.operators import OpGraph
from placement_gym.graph.units import Units, contract, sort_labels
from placement_gym.models.loading import ModelNotFoundError
from placement_gym.placement import Placement, PlacementMismatchError, parse_assignment

BUILD = ("model", "devices", "granularity", "graph", "costs", "sequence_length")
"""Arguments of ``gym.make`` that decide the simulated problem."""
MEASURED = "DevicePlacement-v0", "DevicePlacementPerUnit-v0"
MAX_SHOWN = 400_000
"""Units times placements on one page; two placements are always shown."""
MOST_PLACEMENTS = 8


@dataclass(frozen=True)
class Shown:
    """One placement of a page.

    Attributes:
        label: Its name on the page.
        assignment: (n_units,) device indices.
        result: What is known of it besides the simulation, as a sentence, or an empty string.
        measured_ms: Its latency as it was measured; None if it was not.
    """

    label: str
    assignment: IntArray
    result: str = ""
    measured_ms: float | None = None


@dataclass(frozen=True)
class Scene:
    """What a page shows.

    Attributes:
        backend: Simulates the placements.
        placements: The first is the one that was asked for.
    """

    backend: SimulatedBackend
    placements: tuple[Shown, ...]


@dataclass(frozen=True)
class Found:
    """A placement as its source states it, and the arguments that build its problem."""

    label: str
    placement: Placement
    kwargs: Mapping[str, Any]
    result: str = ""
    measured_ms: float | None = None


def open_scene(
    sources: Sequence[str | Path],
    model: str | None = None,
    costs: str | None = None,
    schedule: str | None = None,
    problem: int | None = None,
) -> Scene:
    """Read placements of one model, and what simulates them.

    The fastest single device that may run the model is added for comparison.

    Args:
        sources: Placement files, and folders with ``results.jsonl``, of which the fastest run of
            each agent is taken.
        model: As for ``gym.make``; None takes the one that the sources name.
        costs: As for ``gym.make``; None takes those of the runs, else ``"analytic"``.
        schedule: Name of a preset; None takes that of the runs, else the model's default.
        problem: Which problem of a folder that has several, from 1.

    Raises:
        UserError: A source cannot be read, or the placements are not of the same model and
            devices; the message names the remedy.
    """
    given = {"model": model, "costs": costs, "schedule": schedule}
    changes = {key: value for key, value in given.items() if value is not None}
    found = [
        one
        for source in sources
        for one in (
            read_folder(Path(source), changes, problem)
            if Path(source).is_dir()
            else read_file(Path(source), changes)
        )
    ]
    try:
        return make_scene(found)
    except ModelNotFoundError as error:
        raise UserError(f"{error}; --model names the model of {sources[0]}") from error


def open_runs(rows: Sequence[Json]) -> Scene:
    """The fastest placement of each agent on one problem, and what simulates them.

    Args:
        rows: Its result rows with a placement and a latency.

    Raises:
        UserError: The model cannot be built, or the placements are not of this model.
    """
    return make_scene(find_fastest(rows, {}))


def make_scene(found: Sequence[Found]) -> Scene:
    """Placements of one model, with what simulates them and the fastest single device."""
    kwargs = found[0].kwargs
    simulated = build_problem({**kwargs, "granularity": "op"})
    graph = simulated.problem.units.graph
    units = find_units(graph, [one.placement for one in found])
    again = make_problem(units, simulated.problem.devices, simulated.costs)
    objective = str(kwargs.get("objective", "latency"))
    axes = parse_schedule(kwargs.get("schedule") or simulated.schedule, objective)
    backend = SimulatedBackend(again, simulated.costs, axes)
    most = max(2, min(MOST_PLACEMENTS, MAX_SHOWN // len(units)))
    placements = [
        Shown(one.label, assign_units(backend, one.placement), one.result, one.measured_ms)
        for one in found[:most]
    ]
    return Scene(backend, (*placements, *find_single_device(backend)))


def read_file(path: Path, changes: Mapping[str, Any]) -> list[Found]:
    """The placement of a file; its model is the one that it names unless ``changes`` has one."""
    placement = Placement.load(path)
    kwargs = {
        "model": placement.model,
        "devices": placement.devices,
        "graph": placement.graph,
        **changes,
    }
    return [Found(path.stem, placement, kwargs)]


def read_folder(path: Path, changes: Mapping[str, Any], number: int | None) -> list[Found]:
    """The fastest run of each agent on one problem of a folder, the fastest first.

    Raises:
        UserError: The folder has no runs with a placement, or those of several problems.
    """
    rows = [row for row in load_runs(path) if row["placement"] and row["latency_ms"]]
    problems = {row["problem"]: row for row in rows}
    if not problems:
        raise UserError(f"{path} has no runs with a placement: name a folder of results or a file")
    if number is None and len(problems) > 1:
        listed = "; ".join(
            f"{index}: {row['model']} on {describe_devices(row['devices'])}"
            for index, row in enumerate(problems.values(), start=1)
        )
        raise UserError(f"{path} has {len(problems)} problems, choose --problem: {listed}")
    if number is not None and number > len(problems):
        raise UserError(f"{path} has {len(problems)} problems, not {number}")
    chosen = [*problems][(number or 1) - 1]
    return find_fastest([row for row in rows if row["problem"] == chosen], changes)


def find_fastest(rows: Sequence[Json], changes: Mapping[str, Any]) -> list[Found]:
    """The fastest run of each agent on one problem, the fastest first."""
    best: dict[str, Json] = {}
    for row in sorted(rows, key=lambda row: float(row["latency_ms"])):
        best.setdefault(row["label"], row)
    kwargs = make_build_kwargs(next(iter(best.values())), changes)
    problem = build_problem(kwargs).problem
    graph = str(kwargs.get("graph", "folded"))
    return [
        Found(
            label,
            Placement.of(problem, parse_assignment(row["placement"], problem), graph),
            kwargs,
            describe_result(row),
            row["latency_ms"] if row["env"] in MEASURED else None,
        )
        for label, row in best.items()
    ]


def make_build_kwargs(row: Json, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that build the simulated problem of a row."""
    kwargs = {**row["env_kwargs"], "model": expand_variables(str(row["env_kwargs"]["model"]))}
    return {**kwargs, "devices": row["devices"], **changes}


def describe_result(row: Json) -> str:
    """What a run found, as a sentence."""
    how = "measured" if row["env"] in MEASURED else "simulated"
    gain = row["speedup_vs_best_single"]
    return f"{how} in the run: {row['latency_ms']:.4g} ms, {gain:.3f} x the best single device"


def build_problem(kwargs: Mapping[str, Any]) -> SimulatedProblem:
    """Build the simulated problem of arguments of ``gym.make``, of which others are ignored."""
    return build_simulated_problem(**{key: kwargs[key] for key in BUILD if key in kwargs})


def find_units(graph: OpGraph, placements: Sequence[Placement]) -> Units:
    """The units of the placements; single operators where they differ.

    Raises:
        PlacementMismatchError: A placement was made for another model.
    """
    for placement in placements:
        placement.check(graph)
    members = placements[0].members
    labels = np.arange(len(graph))
    if all(placement.members == members for placement in placements):
        unit_of = {node: index for index, unit in enumerate(members) for node in members[unit]}
        labels = np.array([unit_of.get(name, -1) for name in graph.names], dtype=np.int64)
        if (labels < 0).any():
            raise PlacementMismatchError(
                f"no unit has the node {graph.names[int(labels.argmin())]!r}: save it again"
            )
    labels = sort_labels(graph, labels)
    return Units("op", graph, labels, contract(graph, labels))


def assign_units(backend: SimulatedBackend, placement: Placement) -> IntArray:
    """(n_units,) device indices of a placement of the same operators.

    Raises:
        PlacementMismatchError: It names devices that the problem does not have.
    """
    units, names = backend.problem.units, backend.problem.device_names
    index = {name: position for position, name in enumerate(names)}
    absent = sorted({device.name for device in placement.devices} - set(index))
    if absent:
        raise PlacementMismatchError(
            f"a placement uses {absent[0]!r}, the first one {list(names)}: compare placements on "
            "the same devices"
        )
    own = np.array([index[device.name] for device in placement.devices], dtype=np.int64)
    assignment = np.zeros(len(units), dtype=np.int64)
    assignment[units.of_operator] = own[placement.operator_devices(units.graph)]
    return assignment


def find_single_device(backend: SimulatedBackend) -> list[Shown]:
    """The fastest device that may run the model alone; none if no device may."""
    problem = backend.problem
    alone = [
        (backend.evaluate(problem.single(device)), device)
        for device in np.flatnonzero(problem.runs_all).tolist()
    ]
    allowed = [(one.latency_ms, device) for one, device in alone if one.feasible]
    if not allowed:
        return []
    device = min(allowed)[1]
    return [Shown(f"{problem.device_names[device]} alone", problem.single(device))]
