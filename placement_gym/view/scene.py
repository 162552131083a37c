"""Scenes: placements of a model, and the backend that simulates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placement_gym.backends import SingleDeviceResults
from placement_gym.backends.simulated import (
    SimulatedBackend,
    SimulatedProblem,
    build_simulated_problem,
    make_problem,
)
from placement_gym.base import IntArray
from placement_gym.graph import OpGraph, Units, contract, sort_labels
from placement_gym.models import ModelSpec
from placement_gym.problem import Placement, PlacementMismatchError
from placement_gym.problem.costs import parse_schedule

MAX_SHOWN = 400_000
"""Most units times placements on a page, which always shows two placements."""
MAX_PLACEMENTS = 8
"""Most placements on a page. Hand-tuned."""


@dataclass(frozen=True)
class DisplayedPlacement:
    """A placement on a page.

    Attributes:
        label: Its name.
        assignment: (n_units,) device indices.
        result: Results other than the simulation, as a sentence.
        measured_ms: Its measured latency, if known.
        saved: The content of its file in one line; empty without a file.
    """

    label: str
    assignment: IntArray
    result: str = ""
    measured_ms: float | None = None
    saved: str = ""


@dataclass(frozen=True)
class Scene:
    """Placements that a page shows, beginning with the first."""

    backend: SimulatedBackend
    placements: tuple[DisplayedPlacement, ...]
    one_device_holds_the_model: bool = True


@dataclass(frozen=True)
class StatedPlacement:
    """A ``DisplayedPlacement`` as its source states it, with arguments that build its problem.

    The speed-up is over the best single device.
    """

    label: str
    placement: Placement
    kwargs: Mapping[str, Any]
    result: str = ""
    measured_ms: float | None = None
    speedup: float | None = None
    saved: str = ""


def make_scene(stated: Sequence[StatedPlacement]) -> Scene:
    """Make a scene of placements of one model, and the fastest single device, if any."""
    kwargs = stated[0].kwargs
    simulated = build_problem({**kwargs, "granularity": "op"})
    graph = simulated.problem.units.graph
    stated = [replace(one, placement=one.placement.fit(graph)) for one in stated]
    units = find_units(graph, [one.placement for one in stated])
    problem = make_problem(units, simulated.problem.devices, simulated.costs)
    objective = str(kwargs.get("objective", "latency"))
    axes = parse_schedule(kwargs.get("schedule") or simulated.schedule, objective)
    backend = SimulatedBackend(problem, simulated.costs, axes)
    max_shown = max(2, min(MAX_PLACEMENTS, MAX_SHOWN // len(units)))
    alone = SingleDeviceResults.from_backend(backend).best()
    placements = []
    for one in stated[:max_shown]:
        assignment, result = assign_units(backend, one.placement), one.result
        if one.speedup is not None and alone is not None:
            result += f", {one.speedup:.3f} x the best single device"
        placements.append(
            DisplayedPlacement(one.label, assignment, result, one.measured_ms, one.saved)
        )
    if alone is not None:
        name = f"{problem.device_names[alone]} alone"
        placements.append(DisplayedPlacement(name, problem.single(alone)))
    return Scene(backend, tuple(placements), alone is not None)


def build_problem(kwargs: Mapping[str, Any]) -> SimulatedProblem:
    """Build the simulated problem of arguments of ``gym.make``."""
    spec = ModelSpec.from_kwargs(kwargs)
    return build_simulated_problem(spec, kwargs.get("devices"), kwargs.get("costs"))


def find_units(graph: OpGraph, placements: Sequence[Placement]) -> Units:
    """The units of placements that fit the graph; single operators if they differ."""
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
    """(n_units,) device indices of a placement."""
    units, names = backend.problem.units, backend.problem.device_names
    index = {name: position for position, name in enumerate(names)}
    unknown = sorted({device.name for device in placement.devices} - set(index))
    if unknown:
        raise PlacementMismatchError(
            f"a placement uses {unknown[0]!r}, the first one {list(names)}: compare placements on "
            "the same devices"
        )
    device_index = np.array([index[device.name] for device in placement.devices], dtype=np.int64)
    assignment = np.zeros(len(units), dtype=np.int64)
    assignment[units.of_operator] = device_index[placement.operator_devices(units.graph)]
    return assignment
