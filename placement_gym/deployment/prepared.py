"""A model that a program has read itself, with the names that placements use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from placement_gym.graph.extract import extract_spec
from placement_gym.models import prepare
from placement_gym.models.loading import has_automatic_name, rename
from placement_gym.problem.placement import Placement

if TYPE_CHECKING:
    import openvino as ov

AUTOMATIC = re.compile(r"[A-Za-z]\w*_(\d{1,9})")


def prepare_for(placement: Placement, model: ov.Model, in_place: bool = False) -> ov.Model:
    """Prepare a model, or a copy of it, as it was when the placement was made.

    OpenVINO names some nodes by a counter, differently each time: those of files that are not IR,
    and those that it adds as a model is reshaped. Loading a file by its path numbers them instead,
    and so does this where a placement of the file needs it.

    Args:
        placement: Made for this model, or for the file that it was read from.
        model: Any model.
        in_place: Whether the model itself is changed.
    """
    automatic_names = {
        node.get_friendly_name() for node in model.get_ops() if has_automatic_name(node)
    }
    renamed: set[str] = set()
    if automatic_names:
        for names in (set[str](), automatic_names, automatic_names | find_folded(model)):
            numbered = number(model.clone(), names, placement)
            if extract_spec(numbered, placement.spec).fingerprint() == placement.fingerprint:
                renamed = names
                break
    return number(model if in_place else model.clone(), renamed, placement)


def number(model: ov.Model, names: set[str], placement: Placement) -> ov.Model:
    """Number the nodes of these names and prepare the model, in place."""
    rename(model, lambda node: node.get_friendly_name() in names)
    return prepare(model, inputs=placement.spec.inputs)


def find_folded(model: ov.Model) -> set[str]:
    """Names of constants that keep the automatic name of a node which was folded into them.

    The counter has gone on from the last node that was read.
    """
    numbers = {node.get_friendly_name(): count(node.get_name()) for node in model.get_ops()}
    added = [count(n.get_name()) for n in model.get_ops() if has_automatic_name(n)]
    last_read = max(
        (position for position in numbers.values() if position < min(added)), default=-1
    )
    return {name for name in numbers if last_read < count(name) <= max(numbers.values())}


def count(name: str) -> int:
    """The number at the end of an automatic name, as of ``"ShapeOf_320"``; else -1."""
    match = AUTOMATIC.fullmatch(name)
    return int(match[1]) if match else -1
