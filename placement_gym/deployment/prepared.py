"""Prepare a model that a program has read itself for its placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.models import prepare
from placement_gym.models.loading import number
from placement_gym.problem.placement import Placement

if TYPE_CHECKING:
    import openvino as ov


def prepare_for(placement: Placement, model: ov.Model, in_place: bool = False) -> ov.Model:
    """Prepare a model, or a copy of it, in the state in which the placement was made.

    Args:
        placement: Made for this model, or for the file that it was read from.
        model: Any model.
        in_place: Change the model itself.
    """
    ready = model if in_place else model.clone()
    # Placements of version 0.3 fit by names alone, and OpenVINO counts some names up each time that
    # it reads or reshapes a model: they get the numbers that files had where they were planned.
    if placement.structure is None:
        known = {node for nodes in placement.members.values() for node in nodes}
        number(node for node in ready.get_ordered_ops() if node.get_friendly_name() not in known)
    return prepare(ready, inputs=placement.spec.inputs)
