"""A model that a program has read itself, with the names that a placement knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.graph.extract import extract
from placement_gym.models import prepare
from placement_gym.models.loading import has_automatic_name, rename
from placement_gym.placement import Placement

if TYPE_CHECKING:
    import openvino as ov


def prepare_for(placement: Placement, model: ov.Model, in_place: bool = False) -> ov.Model:
    """Prepare a model, or a copy of it, as it was when the placement was made.

    OpenVINO names some nodes of files that are not IR by a counter, differently with each reading.
    Loading such a file by its path numbers them instead, and so does this where a placement of the
    file needs it.

    Args:
        placement: Made for this model, or for the file that it was read from.
        model: Any model.
        in_place: Whether the model itself is changed.
    """
    counted = {node.get_friendly_name() for node in model.get_ops() if has_automatic_name(node)}
    sizes = placement.data_shapes
    ready = prepare(model if in_place else model.clone(), data_shapes=sizes)
    if not counted or fits(placement, ready):
        return ready
    numbered = model if in_place else model.clone()
    rename(numbered, lambda node: node.get_friendly_name() in counted)
    prepare(numbered, data_shapes=sizes)
    return numbered if in_place or fits(placement, numbered) else ready


def fits(placement: Placement, model: ov.Model) -> bool:
    """Whether a placement was made for a prepared model."""
    graph = extract(model, placement.graph, placement.scenario or None, placement.data_shapes)
    return graph.fingerprint() == placement.fingerprint
