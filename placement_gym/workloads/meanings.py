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
    UNKNOWN = 4


@dataclass(frozen=True, order=True)
class Meaning:
    """What the integers of an input are.

    Attributes:
        kind: Their kind.
        limit: Indices are below it, offsets up to it, lengths equal to it.
        reader: Description of the operator that says so.
    """

    kind: Kind
    limit: int = 0
    reader: str = ""


UNKNOWN = Meaning(Kind.UNKNOWN)
Limit: TypeAlias = "Callable[[ov.Node], int | None]"
"""The limit of a meaning by the operator that reads it; None where its size is not known."""


def size_of(port: int, axis: int) -> Limit:
    """The size of a dimension of an operator's input."""

    def find(node: ov.Node) -> int | None:
        shape = node.get_input_partial_shape(port)
        if shape.rank.is_dynamic or not shape[axis].is_static:
            return None
        return int(shape[axis].get_length())

    return find


def size_along(port: int, axis_port: int) -> Limit:
    """As ``size_of``, of the dimension that a constant input names."""
    return lambda node: (
        None
        if (axis := read_constant(node, axis_port)) is None
        else size_of(port, int(axis.flat[0]))(node)
    )


def size_by(port: int, attribute: str) -> Limit:
    """As ``size_of``, of the dimension that an attribute names."""
    return lambda node: size_of(port, int(node.get_attributes()[attribute]))(node)


def smallest_size(port: int) -> Limit:
    """The smallest dimension of an input, which coordinates along any dimension stay below."""

    def find(node: ov.Node) -> int | None:
        shape = node.get_input_partial_shape(port)
        return int(min(shape.to_shape(), default=1)) if shape.is_static else None

    return find


def value_of(port: int) -> Limit:
    """The value of a constant input."""
    return lambda node: None if (value := read_constant(node, port)) is None else int(value.flat[0])


def read_constant(node: ov.Node, port: int) -> np.ndarray | None:
    source = node.input_value(port).get_node()
    return np.array(source.data) if source.get_type_name() == "Constant" else None


def whole_size(port: int) -> Limit:
    """The number of elements of an input."""

    def find(node: ov.Node) -> int | None:
        shape = node.get_input_partial_shape(port)
        return int(np.prod(shape.to_shape())) if shape.is_static else None

    return find


READERS: Mapping[tuple[str, int], tuple[Kind, Limit]] = {
    ("Gather", 1): (Kind.INDEX, size_along(0, 2)),
    ("GatherElements", 1): (Kind.INDEX, size_by(0, "axis")),
    ("GatherND", 1): (Kind.INDEX, smallest_size(0)),
    ("ScatterUpdate", 1): (Kind.INDEX, size_along(0, 3)),
    ("ScatterElementsUpdate", 1): (Kind.INDEX, size_along(0, 3)),
    ("ScatterNDUpdate", 1): (Kind.INDEX, smallest_size(0)),
    ("OneHot", 0): (Kind.INDEX, value_of(1)),
    ("EmbeddingBagOffsetsSum", 1): (Kind.INDEX, size_of(0, 0)),
    ("EmbeddingBagOffsets", 1): (Kind.INDEX, size_of(0, 0)),
    ("EmbeddingBagPackedSum", 1): (Kind.INDEX, size_of(0, 0)),
    ("EmbeddingBagPacked", 1): (Kind.INDEX, size_of(0, 0)),
    ("EmbeddingSegmentsSum", 1): (Kind.INDEX, size_of(0, 0)),
    ("EmbeddingBagOffsetsSum", 2): (Kind.OFFSET, whole_size(1)),
    ("EmbeddingBagOffsets", 2): (Kind.OFFSET, whole_size(1)),
    ("EmbeddingSegmentsSum", 2): (Kind.OFFSET, value_of(3)),
    ("LSTMSequence", 3): (Kind.LENGTH, size_of(0, 1)),
    ("GRUSequence", 2): (Kind.LENGTH, size_of(0, 1)),
    ("RNNSequence", 2): (Kind.LENGTH, size_of(0, 1)),
    ("ReverseSequence", 1): (Kind.LENGTH, size_by(0, "seq_axis")),
    ("Loop", 1): (Kind.LENGTH, lambda _: 1),  # whether it begins
    ("CTCLoss", 1): (Kind.LENGTH, size_of(0, 1)),
    ("CTCLoss", 3): (Kind.LENGTH, size_of(2, 1)),
    ("CTCGreedyDecoderSeqLen", 1): (Kind.LENGTH, size_of(0, 1)),
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
COMPARISONS = ("Less", "LessEqual", "Greater", "GreaterEqual")
MOVES: Mapping[str, tuple[int, ...]] = {
    "Concat": tuple(range(64)),
    "Select": (1, 2),
    **dict.fromkeys(
        (
            "Convert",
            "Reshape",
            "Squeeze",
            "Unsqueeze",
            "Transpose",
            "Broadcast",
            "Tile",
            "Slice",
            "StridedSlice",
            "Split",
            "VariadicSplit",
            "Gather",
        ),
        (0,),
    ),
}
"""Operators that only move integers -> the inputs that they move."""


def find_meaning(port: ov.Output) -> Meaning:
    """The meaning of the integers of an input, or of any other tensor.

    They are followed through operators that only move them, and into bodies of control flow.
    """
    found = [UNKNOWN]
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


def read_meaning(node: ov.Node, index: int) -> Meaning | None:
    """What one operator takes the integers of one of its inputs for; None if anything."""
    kind, about = node.get_type_name(), f"{node.get_type_name()} {node.get_friendly_name()!r}"
    if index in COUNTS.get(kind, ()):
        return Meaning(Kind.COUNT, 0, about)
    if kind in COMPARISONS:
        limit = count_positions(node, 1 - index)
        return Meaning(Kind.LENGTH, limit, about) if limit else None
    if (kind, index) not in READERS:
        return None
    meaning, find_limit = READERS[kind, index]
    limit = find_limit(node)
    return None if limit is None else Meaning(meaning, limit, about)


def count_positions(node: ov.Node, port: int) -> int | None:
    """The length of a row of positions, 0, 1, 2, ..., with which lengths are compared."""
    shape = node.get_input_partial_shape(port)
    if shape.rank.is_dynamic or not len(shape) or not shape[-1].is_static:
        return None
    source = node.input_value(port).get_node()
    while source.get_type_name() in MOVES and source.get_input_size():
        source = source.input_value(0).get_node()
    length = int(shape[-1].get_length())
    return length if length > 1 and source.get_type_name() in ("Range", "Constant") else None


def list_inside(node: ov.Node, index: int) -> Iterator[ov.Output]:
    """The tensors in the body of a loop that an input of it becomes."""
    if node.get_type_name() in ("Loop", "TensorIterator"):
        parameters = node.get_function().get_parameters()
        for one in node.get_input_descriptions():
            if one.input_index == index:
                yield parameters[one.body_parameter_index].output(0)
