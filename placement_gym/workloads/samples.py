"""Inputs to measure a model with; generated ones are valid for the operators that read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import UserError, join_words, warn_user
from placement_gym.models import (
    BEAMS,
    LENGTHS,
    MASKS,
    POSITIONS,
    DataShapes,
    Input,
    Sample,
    as_input,
    bind_sizes,
    input_names,
    is_foreign,
    is_named,
    is_whole,
)

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.workloads.request import Request
    from placement_gym.workloads.runs import Inputs

NAMED = (*MASKS, *POSITIONS, *BEAMS, *LENGTHS)


@singledispatch
def draw(request: Request, model: ov.Model, number: int = 0) -> list[Inputs]:
    """(n_inferences,) inputs of each inference of a sample, the same each time.

    Requests of several inferences register their own function. Samples are the user's own, in
    order, then variations of the first one; without own samples they are generated. Sample 0 is
    timed.
    """
    samples = request.own.samples
    if not samples:
        return [sample_inputs(model, request.data_shapes, number)]
    values = samples[number] if number < len(samples) else vary(samples[0], number)
    types = [port.get_element_type() for port in model.inputs]
    return [[as_input(values[index], kind) for index, kind in enumerate(types)]]


def sample_inputs(model: ov.Model, sizes: DataShapes | None = None, seed: int = 0) -> list[Input]:
    """Generate one array per input, the same each time for a seed: floats in [0, 1), masks of ones.

    Integers suit the operators that read them: indices below their table's size, ascending offsets,
    full lengths; pixels are below 256, positions count, others are 0 or 1.

    Raises:
        UserError: An input cannot be generated; see ``check_inputs``.
    """
    rng = np.random.default_rng(seed)
    bound = bind_sizes(model, sizes) if sizes else model
    shapes = [tuple(port.get_shape()) for port in bound.inputs]
    longest = next((shape[1] for shape in shapes if len(shape) > 1), 1)
    return [
        sample_input(port, shape, rng, longest)
        for port, shape in zip(bound.inputs, shapes, strict=True)
    ]


def sample_input(
    port: ov.Output,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    longest: int = 1,
    first: int = 0,
) -> Input:
    """Generate one input; see ``sample_inputs``.

    ``longest`` is the value of an input that is only named as lengths, ``first`` the position of
    the first token.
    """
    element_type = port.get_element_type()
    if is_named(port, MASKS):  # a random mask could hide every token
        return as_input(np.ones(shape), element_type)
    if element_type.is_real():
        return as_input(rng.random(shape), element_type)
    if shape and is_named(port, POSITIONS):
        return as_input(np.broadcast_to(first + np.arange(shape[-1]), shape), element_type)
    if len(shape) == 1 and is_named(port, BEAMS):
        return as_input(np.arange(shape[0]), element_type)
    meaning = find_meaning(port)
    if meaning.kind is Kind.COUNT:
        raise explain_count(port, meaning)
    if meaning.kind is Kind.UNKNOWN and is_named(port, LENGTHS):
        meaning = Meaning(Kind.LENGTH, longest)
    return as_input(draw_integers(meaning, shape, element_type, rng), element_type)


def draw_integers(
    meaning: Meaning, shape: tuple[int, ...], element_type: ov.Type, rng: np.random.Generator
) -> NDArray[Any]:
    """Draw integers of a meaning within the range of their type."""
    if meaning.kind is Kind.LENGTH:
        return np.full(shape, meaning.limit)
    if meaning.kind is Kind.OFFSET:
        count = int(np.prod(shape))
        return (np.arange(count) * meaning.limit // max(count, 1)).reshape(shape)
    few = meaning.kind is Kind.UNKNOWN or is_foreign(element_type) or not is_whole(element_type)
    limit = 2 if few else min(meaning.limit, np.iinfo(element_type.to_dtype()).max + 1)
    return rng.integers(0, max(limit, 1), shape)


def check_inputs(request: Request, model: ov.Model) -> None:
    """Warn of inputs whose integers are guessed.

    Raises:
        UserError: An input that the user does not state decides how much the model computes, such
            as the number of iterations of a loop.
    """
    given = request.own.samples[0] if request.own.samples else ()
    # The meaning of integers may depend on sizes, such as a full length.
    bound = bind_sizes(model, request.data_shapes) if request.separable else model
    guessed = []
    for index, port in enumerate(bound.inputs):
        if index in given or not is_whole(port.get_element_type()) or is_named(port, NAMED):
            continue
        meaning = find_meaning(port)
        if meaning.kind is Kind.COUNT:
            raise explain_count(port, meaning)
        if meaning.kind is Kind.UNKNOWN:
            guessed.append(repr(input_names(port)[0]))
    if guessed:
        warn_user(
            f"the integers of {join_words(guessed)} are guessed, 0 or 1: if that is not what the "
            "model takes, give inputs of your own, --inputs inputs.npz (inputs='inputs.npz')"
        )


def explain_count(port: ov.Output, meaning: Meaning) -> UserError:
    """Make the error for an input that decides how much the model computes."""
    name = input_names(port)[0]
    return UserError(
        f"input {name!r} decides how much {meaning.reader} computes, so it cannot be made up: give "
        "inputs of your own by --inputs inputs.npz (inputs='inputs.npz'), which numpy.savez writes "
        f"with an array for each input, {name!r} among them"
    )


def vary(sample: Sample, seed: int) -> Sample:
    """Redraw the real numbers of a sample in their range, for another request in flight."""
    rng = np.random.default_rng(seed)

    def redraw(values: NDArray[Any]) -> NDArray[Any]:
        real = np.issubdtype(values.dtype, np.floating)
        if not real or not values.size or not np.isfinite(values).all():
            return values
        low, high = float(values.min()), float(values.max())
        return rng.uniform(low, high if high > low else low + 1.0, values.shape).astype(
            values.dtype
        )

    return {index: redraw(values) for index, values in sample.items()}


class Kind(IntEnum):
    """Kinds of integers; if the readers of an input differ, the lowest counts."""

    COUNT = 0
    OFFSET = 1
    LENGTH = 2
    INDEX = 3
    PIXEL = 4
    UNKNOWN = 5


@dataclass(frozen=True, order=True)
class Meaning:
    """The meaning of an input's integers.

    Attributes:
        kind: Their kind.
        limit: Indices and pixels are below it, offsets at most it, lengths equal to it.
        reader: Describes the operator that reads them.
    """

    kind: Kind
    limit: int = 0
    reader: str = ""


UNKNOWN = Meaning(Kind.UNKNOWN)
Limit: TypeAlias = "Callable[[ov.Node], int]"
"""The limit by the operator that reads the integers; 0 if unknown."""


def constant(node: ov.Node, port: int) -> int:
    """The value of a constant input; 0 for other inputs."""
    source = node.input_value(port).get_node()
    return int(source.data.flat[0]) if source.get_type_name() == "Constant" else 0


def size(port: int, pick: Callable[[ov.Shape, ov.Node], int]) -> Limit:
    """Make a limit that ``pick`` takes from the shape of an operator's input."""

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
"""(operator, input) -> kind and limit of its integers."""
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
"""Operator -> inputs that decide how often it runs, or the size of its output."""
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
"""Operator that only moves integers -> the inputs that it moves."""


def find_meaning(port: ov.Output) -> Meaning:
    """Find the meaning of a tensor's integers.

    Follow them through operators that only move them, and into the bodies of loops.
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
    """Return whether a tensor holds bytes in one, three or four channels, as images do."""
    shape = port.get_partial_shape()
    if port.get_element_type().get_type_name() != "u8" or shape.rank.is_dynamic:
        return False
    channels = [shape[axis] for axis in (-1, -3)] if len(shape) in (3, 4) else []
    return any(size.is_static and size.get_length() in (1, 3, 4) for size in channels)


def read_meaning(node: ov.Node, index: int) -> Meaning | None:
    """Read the meaning of an operator's input; None if it takes any integers."""
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
    """The length of a row of positions, 0, 1, 2, ..., that lengths are compared with, or 0."""
    shape = node.get_input_partial_shape(port)
    source = node.input_value(port).get_node()
    while source.get_type_name() in MOVES and source.get_input_size():
        source = source.input_value(0).get_node()
    is_row = source.get_type_name() in ("Range", "Constant") and shape.is_static and len(shape)
    length = int(shape[-1].get_length()) if is_row else 0
    return length if length > 1 else 0


def list_inside(node: ov.Node, index: int) -> Iterator[ov.Output]:
    """Yield the tensors in the body of a loop that hold one of its inputs."""
    if node.get_type_name() in ("Loop", "TensorIterator"):
        parameters = node.get_function().get_parameters()
        for one in node.get_input_descriptions():
            if one.input_index == index:
                yield parameters[one.body_parameter_index].output(0)
