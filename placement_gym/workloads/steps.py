"""The shapes and inputs of one step of a model with state."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base import UserError, last_line
from placement_gym.models import (
    ENCODER,
    GROWING_MASKS,
    POSITIONS,
    TOKENS,
    DataShapes,
    Input,
    OwnInputs,
    SizesError,
    as_input,
    batch_axis,
    find_batch,
    input_names,
    is_named,
)
from placement_gym.workloads.samples import sample_input

if TYPE_CHECKING:
    import openvino as ov


@dataclass(frozen=True)
class Step:
    """One inference of a scenario.

    Attributes:
        past: Number of tokens before it.
        new: Number of tokens that it reads.
        grows: Whether the state holds every token, and masks count past ones too.
    """

    past: int
    new: int
    grows: bool = True


TRIAL_STEPS = (Step(0, 1536), Step(0, 2048))
"""Two lengths of an input that no other input has. Hand-tuned: long enough for windows of audio."""


def match_state(step: Step, model: ov.Model) -> Step:
    """Set ``grows`` of a step: the state has a fixed size in state space models."""
    states = [node for node in model.get_ops() if node.get_type_name() == "ReadValue"]
    shapes = [node.get_output_partial_shape(0) for node in states]
    grows = any(size.is_dynamic for shape in shapes for size in list(shape)[1:])
    return replace(step, grows=grows)


def tokens_of(port: ov.Output, step: Step) -> range:
    """The tokens of a conversation that an input describes at a step."""
    if step.grows and is_named(port, GROWING_MASKS):
        return range(step.past + step.new)
    if step.past == 0 and (window := find_window(port)):
        return range(window)
    return range(step.past, step.past + step.new)


def find_window(port: ov.Output) -> int | None:
    """The number of positions that an input has for any prompt; None if it has one for each token.

    Exported state space models clamp positions to the width of their convolution
    (``ConvSequenceTransform`` of optimum-intel).
    """
    if not is_named(port, POSITIONS):
        return None
    readers = [target.get_node() for target in port.get_target_inputs()]
    limits = [node.get_attributes()["max"] for node in readers if node.get_type_name() == "Clamp"]
    return int(limits[0]) + 1 if limits else None


def sample_at_step(
    port: ov.Output, step: Step, rng: np.random.Generator, sizes: DataShapes
) -> Input:
    return sample_input(port, input_shape(port, step, sizes), rng, first=step.past)


def take_step(port: ov.Output, values: NDArray[Any], step: Step, axis: int) -> Input:
    """Take a step's part of an input of a whole conversation, along a dimension."""
    return as_input(np.take(values, tokens_of(port, step), axis), port.get_element_type())


def counted_axis(port: ov.Output, sizes: DataShapes) -> int | None:
    """The dimension of an input that counts the tokens of a step, if any."""
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic or input_names(port)[0] in sizes:
        return None
    batch = batch_axis(port)
    axis = 0 if batch is None else batch + 1
    return axis if axis < len(shape) and shape[axis].is_dynamic else None


def input_shape(port: ov.Output, step: Step, sizes: DataShapes) -> tuple[int, ...]:
    """The shape of an input at a step, given the sizes of inputs that are the same at each step.

    Dynamic dimensions are those of exported language models: the batch, of one sequence, then the
    tokens. Others raise ``UserError``.
    """
    shape, name = port.get_partial_shape(), input_names(port)[0]
    if name in sizes:
        return sizes[name]
    batch, counted = None if shape.rank.is_dynamic else batch_axis(port), counted_axis(port, sizes)
    if shape.rank.is_dynamic or any(
        size.is_dynamic for axis, size in enumerate(shape) if axis not in (batch, counted)
    ):
        raise UserError(
            f"input {name!r} has shape {shape}: bind all dimensions but batch and tokens, as in "
            f"shapes={{{name!r}: ['?', '?', 64]}} (--shape '{name}[?,?,64]')"
        )
    tokens = tokens_of(port, step)
    return tuple(
        size.get_length() if size.is_static else (1 if axis == batch else len(tokens))
        for axis, size in enumerate(shape)
    )


def find_fixed_sizes(model: ov.Model, own: OwnInputs) -> dict[str, tuple[int, ...]]:
    """Find sizes of dynamic inputs that are the same at each step, such as an encoder's output.

    Unknown ones raise ``UserError``.
    """
    sizes = {}
    fixed = find_fixed(model)
    if own.stated and not {*own.sizes} <= {*fixed}:
        raise SizesError(
            "the model keeps state, so a scenario says how long its inputs are: leave sizes out",
            "the model keeps state, and the placement was made for one without: name that model",
        )
    ports = {input_names(port)[0]: port for port in model.inputs}
    for name in fixed:
        if name in own.sizes:
            sizes[name] = tuple(own.sizes[name])
        elif not own.stated:
            raise ask_length(ports[name])
    for others in own.other_sizes:  # raise if the model does not take them
        of_sample = {name: tuple(others.get(name, size)) for name, size in sizes.items()}
        shape_nodes_at_step(model, Step(1, 1), of_sample)
    return sizes


def ask_length(port: ov.Output) -> UserError:
    """Make the error for an input whose length is not that of the tokens."""
    name, shape = input_names(port)[0], port.get_partial_shape()
    counted = counted_axis(port, {})
    sizes = [
        str(size.get_length()) if size.is_static else ("1500" if axis == counted else "1")
        for axis, size in enumerate(shape)
    ]
    bound = ",".join(sizes)
    return UserError(
        f"input {name!r} has shape {shape}, and its length is not that of the tokens: bind it, as "
        f'in --shape "{name}[{bound}]" (shapes={{{name!r}: [{bound}]}}) where it is 1500, or give '
        "inputs of your own (--inputs inputs.npz)"
    )


def find_fixed(model: ov.Model) -> dict[str, tuple[int, ...]]:
    """Find inputs whose dynamic length is not that of the tokens, and shapes to try them with.

    An encoder's output is known by its name; or the model takes it in any length, and its results
    and state keep their shapes.
    """
    counting = [port for port in model.inputs if counted_axis(port, {}) is not None]
    encoded = [port for port in counting if is_named(port, ENCODER)]
    has_decoder_ids = any(is_named(port, TOKENS) for port in counting)
    tokens = (*TOKENS, *GROWING_MASKS, *POSITIONS, *(() if has_decoder_ids else ("input_ids",)))
    unnamed = [port for port in counting if not is_named(port, (*ENCODER, *tokens))]
    sizes = {input_names(port)[0]: input_shape(port, TRIAL_STEPS[0], {}) for port in encoded}
    # Try each other input with two lengths that no other input has.
    for port in unnamed:
        name = input_names(port)[0]
        trials = [{**sizes, name: input_shape(port, length, {})} for length in TRIAL_STEPS]
        with suppress(UserError):  # raised if it must be as long as other inputs
            short, long = (
                find_result_shapes(shape_nodes_at_step(model, Step(1, 5), trial))
                for trial in trials
            )
            if short == long and all(shape.is_static for shape in short):
                sizes = trials[0]
    return sizes


def find_result_shapes(nodes: Mapping[str, ov.Node]) -> list[ov.PartialShape]:
    """The shapes of outputs, and of states at the end of a step, in topological order."""
    return [
        node.get_input_partial_shape(0)
        for node in nodes.values()
        if node.get_type_name() == "Result"
    ]


def counts_tokens(model: ov.Model) -> bool:
    """Return whether a model with state reads tokens: an input counts them, or the state grows."""
    sizes = find_fixed(model)
    if any(counted_axis(port, sizes) is not None for port in model.inputs):
        return True
    try:
        nodes = shape_nodes_at_step(model, Step(1, 1), sizes)
    except UserError:
        return True
    variables: dict[str, set[str]] = {}
    for node in model.get_ordered_ops():
        if node.get_type_name() in ("ReadValue", "Assign"):
            at_step = nodes[node.get_friendly_name()]
            port = at_step.output(0) if node.get_type_name() == "ReadValue" else at_step.input(0)
            variables.setdefault(node.get_attributes()["variable_id"], set()).add(
                str(port.get_partial_shape())
            )
    return any(len(shapes) > 1 for shapes in variables.values())


def shape_nodes_at_step(model: ov.Model, step: Step, sizes: DataShapes) -> dict[str, ov.Node]:
    """Map names to nodes with their static shapes at a step of a scenario.

    In a copy of the model a Parameter replaces each ``ReadValue``, and a Result each ``Assign``,
    so the state has a length. A dimension that stays dynamic raises ``UserError``.
    """
    import openvino as ov
    from openvino import op

    clone, step = model.clone(), match_state(step, model)
    parameters, results = list(clone.get_parameters()), list(clone.get_results())
    batch = find_batch(clone)
    for parameter, port in zip(parameters, clone.inputs, strict=True):
        parameter.set_partial_shape(ov.PartialShape(list(input_shape(port, step, sizes))))
    for node in clone.get_ordered_ops():
        if node.get_type_name() == "ReadValue":
            results += [op.Result(port.get_source_output()) for port in node.inputs()]
            past = op.Parameter(
                node.get_output_element_type(0), ov.Shape(state_shape(node, step, batch))
            )
            past.set_friendly_name(node.get_friendly_name())
            node.output(0).replace(past.output(0))
            parameters.append(past)
        elif node.get_type_name() == "Assign":
            result = op.Result(node.input(0).get_source_output())
            result.set_friendly_name(node.get_friendly_name())
            results.append(result)
    static = ov.Model(results, parameters, model.get_friendly_name())
    try:
        static.validate_nodes_and_infer_types()
    except RuntimeError as error:
        of_sizes = f", with inputs of {dict(sizes)}" if sizes else ""
        raise UserError(
            f"the model does not take {step.new} tokens after {step.past}{of_sizes}: leave the "
            f"number of tokens of all its inputs dynamic; OpenVINO: {last_line(error)}"
        ) from error
    return {node.get_friendly_name(): node for node in static.get_ordered_ops()}


def state_shape(node: ov.Node, step: Step, batch: int) -> list[int]:
    """The shape of a state before a step; the first dimension is the batch, others count tokens."""
    return [
        size.get_length() if size.is_static else (step.past if axis else batch)
        for axis, size in enumerate(node.get_output_partial_shape(0))
    ]
