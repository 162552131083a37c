"""Placements: the device of each unit of a model, in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from placement_gym.base import UNMEASURABLE, IntArray, JsonFile, format_ratio, join_words
from placement_gym.graph import OpGraph, Structure, describe_difference, match
from placement_gym.hardware import DeviceSpec, parse_list
from placement_gym.models import SIZES, ModelSpec
from placement_gym.problem.problem import PlacementMismatchError, Problem, parse_assignment

FORMAT = 1
"""Version of the file; raise it when an older program would misread a newer file."""


@dataclass(frozen=True)
class Placement(JsonFile):
    """The device of each unit of a model.

    Attributes:
        model: Name of the model.
        fingerprint: ``OpGraph.fingerprint()`` of the model's operators.
        graph: View of the operators, ``"folded"`` or ``"raw"``.
        devices: The devices with their settings.
        units: Device name by unit.
        members: Names of the IR nodes by unit.
        scenario: Scenario of a stateful model, else empty.
        data_shapes: Measured sizes of inputs with dynamic dimensions.
        inputs: Fingerprint of the user's inputs in the measurement, else empty.
        structure: Finds the operators under other names; None in files of version 0.3.
    """

    kind: ClassVar = "a placement file"
    indent: ClassVar = 1

    model: str
    fingerprint: str
    graph: str
    devices: tuple[DeviceSpec, ...]
    units: Mapping[str, str]
    members: Mapping[str, tuple[str, ...]]
    scenario: str = ""
    data_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: str = ""
    structure: Structure | None = None

    @property
    def spec(self) -> ModelSpec:
        """The model at the same sizes, with one unit for each operator."""
        return ModelSpec(
            self.model,
            "op",
            self.graph,
            inputs={SIZES: self.data_shapes} if self.data_shapes or self.scenario else None,
            scenario=self.scenario or None,
        )

    @classmethod
    def from_assignment(
        cls, problem: Problem, assignment: IntArray, graph: str = "folded"
    ) -> Placement:
        """Make a placement from (n_units,) device indices."""
        units = problem.units
        names = problem.device_names
        return cls(
            model=units.graph.model,
            fingerprint=units.graph.fingerprint(),
            graph=graph,
            devices=problem.devices,
            units={u: names[d] for u, d in zip(units.names, assignment.tolist(), strict=True)},
            members=dict(zip(units.names, units.quotient.members, strict=True)),
            structure=Structure.from_graph(units.graph),
            **units.graph.request.keywords(),
        )

    def assignment(self, problem: Problem) -> IntArray:
        """Return (n_units,) device indices in a problem of the same model, units and devices.

        Raises:
            PlacementMismatchError: Model, units or devices differ.
        """
        return parse_assignment(self.fit(problem.units.graph).units, problem)

    def operator_devices(self, graph: OpGraph) -> IntArray:
        """Return the (n_operators,) index into ``devices`` of each operator in the model's graph.

        Raises:
            PlacementMismatchError: The graph is another model's.
        """
        # The file may have been edited: it must describe the devices and nodes that it names.
        fitted = self.fit(graph)
        index = {device.name: position for position, device in enumerate(self.devices)}
        unknown = sorted(set(self.units.values()) - set(index))
        if unknown or set(self.units) != set(self.members):
            raise PlacementMismatchError(
                f"the placement names devices {unknown} that it does not describe, or units "
                "without members: save it again"
            )
        # By IR node, as the graph's view may group nodes into other operators.
        of_node = {
            node: index[fitted.units[unit]]
            for unit, nodes in fitted.members.items()
            for node in nodes
        }
        missing = [name for name in graph.names if name not in of_node]
        if missing:
            raise PlacementMismatchError(
                f"no unit of the placement has the node {missing[0]!r}: save it again"
            )
        return np.array([of_node[name] for name in graph.names], dtype=np.int64)

    def fit(self, graph: OpGraph) -> Placement:
        """Return the placement with the names of a graph of the same model.

        Operators that were added at inputs and outputs, as by ``PrePostProcessor``, join the units
        of their neighbours.

        Raises:
            PlacementMismatchError: The graph is another model's.
        """
        if graph.fingerprint() == self.fingerprint:
            return self
        measured = graph.request.data_shapes
        if measured != self.data_shapes and measured.keys() == self.data_shapes.keys():
            raise PlacementMismatchError(
                f"the placement was made for inputs of {dict(self.data_shapes)}, and these are "
                f"{dict(measured)}: give inputs of the same sizes, or leave them out"
            )
        structure = Structure.from_graph(graph)
        names = match(self.structure, structure) if self.structure else None
        if names is None:
            raise PlacementMismatchError(self.explain_mismatch(graph.model, structure))
        # A unit is named after one of its operators, another one if that is gone. Added operators
        # come last and map to the name of their neighbour.
        found = {known: name for name, known in reversed(names.items())}
        unit_of = {node: unit for unit, nodes in self.members.items() for node in nodes}
        new_units: dict[str, str] = {}
        members: dict[str, tuple[str, ...]] = {}
        for name, nodes in zip(graph.names, graph.members, strict=True):
            if unit := unit_of.get(names[name]):
                new = new_units.setdefault(unit, found.get(unit, name))
                members[new] = (*members.get(new, ()), *nodes)
        return replace(
            self,
            fingerprint=graph.fingerprint(),
            units={new_units[u]: device for u, device in self.units.items() if u in new_units},
            members=members,
            structure=structure,
        )

    def explain_mismatch(self, model: str, structure: Structure) -> str:
        """Explain how the structure of a model differs."""
        difference = (
            describe_difference(self.structure, structure)
            if self.structure
            else "its operators, names, shapes or weights' sizes differ: load the model with the "
            "shapes of the placement, as by load_model(file, shapes={...}). Placements of version "
            "0.3 need equal names, which OpenVINO numbers again for some files: else plan it again"
        )
        return (
            f"the placement was made for model {self.model!r}, and {model!r} differs: "
            f"{difference}. Where you have changed the model since, as by preprocessing, see "
            "docs/how_to/own_problem.md"
        )

    def describe_inputs(self, own: str) -> list[str]:
        """Warn if inputs with the fingerprint ``own`` are not those of the placement."""
        if not self.inputs or own == self.inputs:
            return []
        others = "other inputs" if own else "generated inputs"
        return [
            f"the placement was made with inputs of your own, and this is with {others}: give the "
            "same by --inputs FILE (inputs=FILE)"
        ]

    def to_json(self) -> dict[str, Any]:
        """The contents of a placement file."""
        sizes = {name: list(shape) for name, shape in self.data_shapes.items()}
        request = {"scenario": self.scenario, "data_shapes": sizes, "inputs": self.inputs}
        return {
            "format": FORMAT,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "graph": self.graph,
            "devices": [device.to_json() for device in self.devices],
            "units": dict(self.units),
            "members": {unit: list(nodes) for unit, nodes in self.members.items()},
            **({"structure": self.structure.to_json()} if self.structure else {}),
            **{key: value for key, value in request.items() if value},
        }

    @classmethod
    def from_json(cls, values: Any) -> Self:
        from placement_gym.base.schemas import PlacementFields

        fields = PlacementFields.read(values, FORMAT)
        return cls(
            model=fields.model,
            fingerprint=fields.fingerprint,
            graph=fields.graph,
            devices=parse_list([DeviceSpec.from_json(device) for device in fields.devices]),
            units=fields.units,
            members={unit: tuple(nodes) for unit, nodes in fields.members.items()},
            scenario=fields.scenario,
            data_shapes={name: tuple(sizes) for name, sizes in fields.data_shapes.items()},
            inputs=fields.inputs,
            structure=Structure.from_json(fields.structure.kinds, fields.structure.reads)
            if fields.structure
            else None,
        )


def describe_saved(
    placement: Placement, speedup: float | None = None, noise: float = 0.0, best_single: str = ""
) -> str:
    """Describe a placement: ``"Saved: CPU alone"``, or the units of a split by device.

    As ``"Saved: a split, 17 of 57 units on GPU, 1.21 ±0.03 x CPU alone"``.

    Args:
        placement: The saved placement.
        speedup: Over the best single device; None if no device may run the model alone.
        noise: Uncertainty of ``speedup``, as a share of it.
        best_single: Label of the best single device.
    """
    (main, _), *counts = Counter(placement.units.values()).most_common()
    if not counts:
        return f"Saved: {main} alone"
    (device, count), *rest = counts
    destinations = join_words([f"on {device}", *(f"{n} on {name}" for name, n in rest)])
    gain = describe_gain(speedup, noise, best_single)
    return f"Saved: a split, {count} of {len(placement.units)} units {destinations}{gain}"


def describe_gain(speedup: float | None, noise: float, best_single: str) -> str:
    """Describe a speed-up: ``", 1.21 ±0.03 x CPU alone"``; empty for None."""
    if speedup is None:
        return ""
    ratio = format_ratio(speedup, noise, 2)
    if ratio == UNMEASURABLE:
        return f", its speed-up over {best_single} is {ratio}"
    return f", {ratio} x {best_single}"
