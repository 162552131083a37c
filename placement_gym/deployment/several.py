"""The placement of several models, divided into those of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from placement_gym.graph import Structure, extract_spec
from placement_gym.models import (
    split_union,
)
from placement_gym.problem import Placement

if TYPE_CHECKING:
    import openvino as ov


def split_placement(model: ov.Model, placement: Placement) -> dict[str, tuple[ov.Model, Placement]]:
    """Split a union into its models, each with its part of the placement.

    Names of nodes and inputs are those of each model alone.

    Args:
        model: The union, as ``load_model`` returns it.
        placement: A placement of the union.

    Raises:
        PlacementMismatchError: The placement was made for another model.
    """
    fitted = placement.fit(extract_spec(model, placement.spec))
    placements = {}
    for name, part in split_union(model).items():
        own = take_part(fitted, name)
        graph = extract_spec(part, own.spec)
        own = replace(own, fingerprint=graph.fingerprint(), structure=Structure.of(graph))
        placements[name] = part, own
    return placements


def take_part(placement: Placement, name: str) -> Placement:
    """Take the part of one model; its fingerprint and structure are still the union's."""
    prefix = f"{name}/"

    def take(values: Mapping[str, Any]) -> dict[str, Any]:
        entries = {key: value for key, value in values.items() if key.startswith(prefix)}
        return {key.removeprefix(prefix): value for key, value in entries.items()}

    members = {
        unit: tuple(node.removeprefix(prefix) for node in nodes)
        for unit, nodes in take(placement.members).items()
    }
    return replace(
        placement,
        model=name,
        units=take(placement.units),
        members=members,
        data_shapes=take(placement.data_shapes),
    )
