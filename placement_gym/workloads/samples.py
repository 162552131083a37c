"""Generated inputs to measure a model with, valid for the operators that read them."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

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
from placement_gym.workloads.meanings import Kind, Meaning, find_meaning

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.workloads.request import Request
    from placement_gym.workloads.runs import Inputs

NAMED = (*MASKS, *POSITIONS, *BEAMS, *LENGTHS)


@singledispatch
def draw(request: Request, model: ov.Model, number: int = 0) -> list[Inputs]:
    """(n_inferences,) the inputs of each inference of a sample, the same each time.

    That is one inference; kinds of several register their own.

    Args:
        request: What is timed as one.
        model: The model.
        number: Own samples come first; of more they are varied, or without any generated. The
            first one is timed.
    """
    samples = request.own.samples
    if not samples:
        return [sample_inputs(model, request.data_shapes, number)]
    values = samples[number] if number < len(samples) else vary(samples[0], number)
    types = [port.get_element_type() for port in model.inputs]
    return [[as_input(values[index], kind) for index, kind in enumerate(types)]]


def sample_inputs(model: ov.Model, sizes: DataShapes | None = None, seed: int = 0) -> list[Input]:
    """One array per input, the same each time for a seed: floats in [0, 1), masks all ones.

    Integers are what the operators that read them take: indices below their table's size, offsets
    that do not fall, lengths in full; pixels are below 256, positions count, others are 0 or 1. A
    random mask could hide every token.

    Raises:
        UserError: Only the user can say what an input is; see ``check_inputs``.
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
    """The values of one input; see ``sample_inputs``.

    Args:
        port: The input.
        shape: Its shape.
        rng: Draws them.
        longest: What an input that is named as lengths has, where no operator says it.
        first: The first position.
    """
    element_type = port.get_element_type()
    if is_named(port, MASKS):
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
    """Integers of a meaning, as far as their type holds them."""
    if meaning.kind is Kind.LENGTH:
        return np.full(shape, meaning.limit)
    if meaning.kind is Kind.OFFSET:
        count = int(np.prod(shape))
        return (np.arange(count) * meaning.limit // max(count, 1)).reshape(shape)
    few = meaning.kind is Kind.UNKNOWN or is_foreign(element_type) or not is_whole(element_type)
    limit = 2 if few else min(meaning.limit, np.iinfo(element_type.to_dtype()).max + 1)
    return rng.integers(0, max(limit, 1), shape)


def check_inputs(request: Request, model: ov.Model) -> None:
    """Warn of inputs whose integers are guessed, once and by name.

    Raises:
        UserError: The values of an input decide what the model computes, such as the number of
            iterations of a loop, so that the user has to state them.
    """
    given = request.own.samples[0] if request.own.samples else ()
    # What generated integers mean may depend on sizes, as a length in full does.
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
    """Other real numbers in the range of a sample's own, for another request in flight."""
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
