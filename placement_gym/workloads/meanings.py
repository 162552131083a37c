"""The meaning of an integer input, by the operators that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import openvino as ov


class Kind(IntEnum):
    """What integers are; where readers differ, the lowest."""

    COUNT = 0
    OFFSET = 1
    LENGTH = 2
    INDEX = 3
    PIXEL = 4
    UNKNOWN = 5


@dataclass(frozen=True, order=True)
class Meaning:
    """What the integers of an input are.

    Attributes:
        kind: Their kind.
        limit: Indices and pixels are below it, offsets up to it, lengths equal to it.
        reader: Description of the operator that says so.
    """

    kind: Kind
    limit: int = 0
    reader: str = ""


UNKNOWN = Meaning(Kind.UNKNOWN)
Limit: TypeAlias = "Callable[[ov.Node], int]"
"""The limit of a meaning by the operator that reads it; 0 where it is not known."""


def constant(node: ov.Node, port: int) -> int:
    """The value of a constant input; 0 for any other."""
    source = node.input_value(port).get_node()
    return int(source.data.flat[0]) if source.get_type_name() == "Constant" else 0


def size(port: int, pick: Callable[[ov.Shape, ov.Node], int]) -> Limit:
    """What ``pick`` returns for the shape of an operator's input."""

    def find(node: ov.Node) -> int:
        shape = node.get_input_partial_shape(port)
        return int(pick(shape.to_shape(), node)) if shape.is_static else 0

    return find


ROWS = size(0, lambda shape, _: shape[0])
COLUMNS = size(0, lambda shape, _: shape[1])
SMALLEST = size(0, lambda shape, _: min(shape, default=0))
READERS: Mapping[tuple[str, int], tuple[Kind, Limit]] = {
    ("Gather", 1): (Kind.INDEX, size(0, lambda shape, node: shape[constant(node, 2)])),
    ("GatherElements", 1): (
        Kind.INDEX,
        size(0, lambda shape, node: shape[node.get_attributes()["axis"]]),
    ),
    ("GatherND", 1): (Kind.INDEX, SMALLEST),
    ("ScatterUpdate", 1): (Kind.INDEX, size(0, lambda shape, node: shape[constant(node, 3)])),
    ("ScatterElementsUpdate", 1): (Kind.INDEX, SMALLEST),
    ("ScatterNDUpdate", 1): (Kind.INDEX, SMALLEST),
    ("OneHot", 0): (Kind.INDEX, lambda node: constant(node, 1)),
    ("EmbeddingBagOffsetsSum", 1): (Kind.INDEX, ROWS),
    ("EmbeddingBagPackedSum", 1): (Kind.INDEX, ROWS),
    ("EmbeddingSegmentsSum", 1): (Kind.INDEX, ROWS),
    ("EmbeddingBagOffsetsSum", 2): (Kind.OFFSET, size(1, lambda shape, _: np.prod(shape))),
    ("EmbeddingSegmentsSum", 2): (Kind.OFFSET, lambda node: constant(node, 3)),
    ("LSTMSequence", 3): (Kind.LENGTH, COLUMNS),
    ("GRUSequence", 2): (Kind.LENGTH, COLUMNS),
    ("RNNSequence", 2): (Kind.LENGTH, COLUMNS),
    ("ReverseSequence", 1): (
        Kind.LENGTH,
        size(0, lambda shape, node: shape[node.get_attributes()["seq_axis"]]),
    ),
    ("Loop", 1): (Kind.LENGTH, lambda _: 1),  # whether it begins
}
"""Operator and its input -> what the integers of that input are."""
COUNTS: Mapping[str, tuple[int, ...]] = {
    "Loop": (0,),
    "Range": (0, 1, 2),
    "Broadcast": (1,),
    "Tile": (1,),
    "Reshape": (1,),
    "TopK": (1,),
    "Interpolate": (1,),
    "Slice": (1, 2),
    "StridedSlice": (1, 2),
    "Pad": (1, 2),
    "OneHot": (1,),
    "RandomUniform": (0,),
    "NonMaxSuppression": (2,),
}
"""Operators whose inputs decide how often they run, or the size of what they compute."""
MOVING = (
    "Convert Reshape Squeeze Unsqueeze Transpose Broadcast Tile Slice StridedSlice Split "
    "VariadicSplit Gather"
)
COMPARISONS = ("Less", "LessEqual", "Greater", "GreaterEqual")
MOVES: Mapping[str, tuple[int, ...]] = {
    "Concat": tuple(range(64)),
    "Select": (1, 2),
    **dict.fromkeys(MOVING.split(), (0,)),
}
"""Operators that only move integers -> the inputs that they move."""


def find_meaning(port: ov.Output) -> Meaning:
    """The meaning of the integers of an input, or of any other tensor.

    They are followed through operators that only move them, and into bodies of control flow.
    """
    found = [Meaning(Kind.PIXEL, 256) if is_image(port) else UNKNOWN]
    seen, waiting = set(), [port]
    while waiting:
        for reader in waiting.pop().get_target_inputs():
            node, index = reader.get_node(), reader.get_index()
            if (node.get_name(), index) in seen:
                continue
            seen.add((node.get_name(), index))
            if meaning := read_meaning(node, index):
                found.append(meaning)
            if index in MOVES.get(node.get_type_name(), ()):
                waiting += node.outputs()
            waiting += list_inside(node, index)
    return min(found)


def is_image(port: ov.Output) -> bool:
    """Return whether a tensor is one of bytes with one, three or four channels, as images have."""
    shape = port.get_partial_shape()
    if port.get_element_type().get_type_name() != "u8" or shape.rank.is_dynamic:
        return False
    channels = [shape[axis] for axis in (-1, -3)] if len(shape) in (3, 4) else []
    return any(size.is_static and size.get_length() in (1, 3, 4) for size in channels)


def read_meaning(node: ov.Node, index: int) -> Meaning | None:
    """What one operator takes the integers of one of its inputs for; None if anything."""
    kind, about = node.get_type_name(), f"{node.get_type_name()} {node.get_friendly_name()!r}"
    if index in COUNTS.get(kind, ()):
        return Meaning(Kind.COUNT, 0, about)
    if kind in COMPARISONS:
        meaning, limit = Kind.LENGTH, count_positions(node, 1 - index)
    elif (kind, index) in READERS:
        meaning, find_limit = READERS[kind, index]
        limit = find_limit(node)
    else:
        return None
    return Meaning(meaning, limit, about) if limit else None


def count_positions(node: ov.Node, port: int) -> int:
    """The length of a row of positions, 0, 1, 2, ..., with which lengths are compared, or 0."""
    shape = node.get_input_partial_shape(port)
    source = node.input_value(port).get_node()
    while source.get_type_name() in MOVES and source.get_input_size():
        source = source.input_value(0).get_node()
    is_row = source.get_type_name() in ("Range", "Constant") and shape.is_static and len(shape)
    length = int(shape[-1].get_length()) if is_row else 0
    return length if length > 1 else 0


def list_inside(node: ov.Node, index: int) -> Iterator[ov.Output]:
    """The tensors in the body of a loop that an input of it becomes."""
    if node.get_type_name() in ("Loop", "TensorIterator"):
        parameters = node.get_function().get_parameters()
        for one in node.get_input_descriptions():
            if one.input_index == index:
                yield parameters[one.body_parameter_index].output(0)
