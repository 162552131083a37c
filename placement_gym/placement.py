"""Placements as files: unit -> device for one model, saved and loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placement_gym.arrays import IntArray
from placement_gym.devices import DeviceSpec
from placement_gym.errors import UserError
from placement_gym.graph.operators import OpGraph
from placement_gym.problem import Problem

FORMAT = 1


class PlacementMismatchError(UserError):
    """A placement that was made for another model."""


@dataclass(frozen=True)
class Placement:
    """Where each unit of one model goes.

    Attributes:
        model: Name of the model.
        fingerprint: Of the model's operator graph, ``OpGraph.fingerprint()``.
        graph: The view it was made on, ``"folded"`` or ``"raw"``.
        devices: The devices that the units name, with their settings.
        units: Unit -> device name.
        members: Unit -> names of its IR nodes.
    """

    model: str
    fingerprint: str
    graph: str
    devices: tuple[DeviceSpec, ...]
    units: Mapping[str, str]
    members: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, problem: Problem, assignment: IntArray, graph: str = "folded") -> Placement:
        """The placement that an (n_units,) assignment of device indices means."""
        units = problem.units
        names = problem.device_names
        return cls(
            model=units.graph.model,
            fingerprint=units.graph.fingerprint(),
            graph=graph,
            devices=problem.devices,
            units={u: names[d] for u, d in zip(units.names, assignment.tolist(), strict=True)},
            members=dict(zip(units.names, units.quotient.members, strict=True)),
        )

    def assignment(self, problem: Problem) -> IntArray:
        """(n_units,) device indices in a problem on the same model, units and device names.

        Raises:
            PlacementMismatchError: Model, units or devices differ.
        """
        self.check(problem.units.graph)
        return assignment_of(self.units, problem)

    def operator_devices(self, graph: OpGraph) -> IntArray:
        """(n_operators,) index into ``devices`` of each operator of the same model's graph.

        Raises:
            PlacementMismatchError: The graph is another model's.
        """
        self.check(graph)
        index = {device.name: position for position, device in enumerate(self.devices)}
        unknown = sorted(set(self.units.values()) - set(index))
        if unknown or set(self.units) != set(self.members):
            raise PlacementMismatchError(
                f"the placement names devices {unknown} that it does not describe, or units "
                "without members: make it anew"
            )
        of_node = {
            node: index[self.units[unit]] for unit, nodes in self.members.items() for node in nodes
        }
        return np.array([of_node[name] for name in graph.names], dtype=np.int64)

    def check(self, graph: OpGraph) -> None:
        if graph.fingerprint() != self.fingerprint:
            raise PlacementMismatchError(
                f"the placement was made for model {self.model!r} ({self.fingerprint}), not for "
                f"{graph.model!r} ({graph.fingerprint()}): operators, names, shapes or weights' "
                "sizes differ. Automatic names change from build to build: save the model as "
                ".xml once and place that file."
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "graph": self.graph,
            "devices": [device.to_json() for device in self.devices],
            "units": dict(self.units),
            "members": {unit: list(nodes) for unit, nodes in self.members.items()},
        }

    def save(self, path: str | Path) -> None:
        """Write the placement as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Placement:
        """Read a placement that ``save`` wrote.

        Raises:
            ValueError: The file is no placement, or of another format.
        """
        try:
            values = json.loads(Path(path).read_text())
            if values["format"] != FORMAT:
                raise UserError(f"format {values['format']}, this version reads {FORMAT}")
            return cls(
                model=values["model"],
                fingerprint=values["fingerprint"],
                graph=values["graph"],
                devices=tuple(DeviceSpec.from_json(device) for device in values["devices"]),
                units=values["units"],
                members={unit: tuple(nodes) for unit, nodes in values["members"].items()},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is not a placement file: {error}") from error


def assignment_of(units: Mapping[str, str], problem: Problem) -> IntArray:
    """(n_units,) device indices of a placement given as unit -> device name.

    Raises:
        PlacementMismatchError: Units or devices are not those of the problem.
    """
    index = {name: position for position, name in enumerate(problem.device_names)}
    absent = sorted(set(units.values()) - set(index))
    if set(units) != set(problem.units.names) or absent:
        raise PlacementMismatchError(
            f"the placement has {len(units)} units on {sorted(set(units.values()))}, "
            f"the environment {problem.n_units} on {list(index)}: "
            "make it with the same granularity, graph and devices"
        )
    return np.array([index[units[unit]] for unit in problem.units.names], dtype=np.int64)
