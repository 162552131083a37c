"""Requests of models with state: a prompt, then tokens one by one; shapes at each inference."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from placement_gym.base.errors import UserError
from placement_gym.base.texts import last_line
from placement_gym.models.named_inputs import GROWING_MASKS, batch_axis, is_named
from placement_gym.models.shapes import bind_shapes, find_dynamic, input_names

if TYPE_CHECKING:
    import openvino as ov

NAME = re.compile(r"chat(-(?P<prompt>\d{1,7})-(?P<decoded>\d{1,7}))?")
PROMPT, DECODED = 64, 16
"""Lengths of ``"chat"``."""


@dataclass(frozen=True)
class Step:
    """One inference of a scenario: the tokens that the state holds before it, and new ones."""

    past: int
    new: int


@dataclass(frozen=True)
class Scenario:
    """A prefill of ``prompt`` tokens on an empty state, then ``decoded`` inferences of a token
    each.

    Raises:
        UserError: One of them is less than 1.
    """

    prompt: int = PROMPT
    decoded: int = DECODED

    def __post_init__(self) -> None:
        if min(self.prompt, self.decoded) < 1:
            raise UserError(f"{self.name!r}: a scenario has a prompt and decodes tokens, 1 or more")

    @classmethod
    def parse(cls, name: str) -> Scenario:
        """Read ``"chat"``, or ``"chat-128-32"``: a prompt of 128 tokens, then 32 decoded ones.

        Raises:
            UserError: It is neither.
        """
        match = NAME.fullmatch(name) if isinstance(name, str) else None
        if match is None:
            raise UserError(
                f"scenario must be 'chat' ({PROMPT} tokens of prompt, {DECODED} decoded) or state "
                f"the lengths, as in 'chat-128-32', not {name!r:.200}"
            )
        return cls(int(match["prompt"]), int(match["decoded"])) if match["prompt"] else cls()

    @property
    def name(self) -> str:
        return f"chat-{self.prompt}-{self.decoded}"

    def steps(self) -> list[Step]:
        """Every inference, the prefill first."""
        return [Step(0, self.prompt), *(Step(past, 1) for past in self.pasts())]

    def pasts(self) -> range:
        """Tokens that the state holds before each decoded one."""
        return range(self.prompt, self.prompt + self.decoded)


def is_stateful(model: ov.Model) -> bool:
    """Return whether a model keeps state between inferences."""
    return bool(model.get_variables())


def bind_batch(model: ov.Model) -> None:
    """Bind the batch of every input, in place: that of an input where it is bound, else one.

    HETERO fails on many splits of a model with state whose batch is dynamic.

    Raises:
        UserError: The model cannot have this batch.
    """
    batch = find_batch(model)
    shapes: dict[str, list[int | str]] = {}
    for port in model.inputs:
        axis, sizes = batch_axis(port), [str(size) for size in port.get_partial_shape()]
        if axis is not None and port.get_partial_shape()[axis].is_dynamic:
            shapes[input_names(port)[0]] = [*sizes[:axis], batch, *sizes[axis + 1 :]]
    if shapes:
        bind_shapes(model, shapes)


def find_batch(model: ov.Model) -> int:
    """Sequences that a model takes at a time: those of the first input that binds them, or one."""
    axes = ((port.get_partial_shape(), batch_axis(port)) for port in model.inputs)
    sizes = (shape[axis] for shape, axis in axes if axis is not None)
    return next((size.get_length() for size in sizes if size.is_static), 1)


def input_shape(port: ov.Output, step: Step) -> tuple[int, ...]:
    """The shape of an input at a step of a scenario.

    Dimensions that are not bound have the meaning that exported language models give them: the
    batch, of one sequence, and after it the new tokens, for an attention mask all tokens.

    Raises:
        UserError: Other dimensions are dynamic, or the tokens are not.
    """
    shape, name = port.get_partial_shape(), port.get_node().get_friendly_name()
    batch = None if shape.rank.is_dynamic else batch_axis(port)
    counted = 0 if batch is None else batch + 1
    if shape.rank.is_dynamic or any(
        size.is_dynamic for axis, size in enumerate(shape) if axis not in (batch, counted)
    ):
        raise UserError(
            f"input {name!r} has shape {shape}: bind all dimensions but batch and tokens, as in "
            f"shapes={{{name!r}: ['?', '?', 64]}} (--shape '{name}[?,?,64]')"
        )
    tokens = step.past + step.new if is_named(port, GROWING_MASKS) else step.new
    return tuple(
        size.get_length() if size.is_static else (1 if axis == batch else tokens)
        for axis, size in enumerate(shape)
    )


def shape_nodes_at_step(model: ov.Model, step: Step) -> dict[str, ov.Node]:
    """Nodes by name with the static shapes that they have at a step of a scenario.

    Of a copy of the model in which a Parameter stands for each ``ReadValue`` and a Result for each
    ``Assign``, so that the state has a length.

    Raises:
        UserError: A dimension stays dynamic at the scenario's lengths.
    """
    import openvino as ov
    from openvino import op

    clone = model.clone()
    parameters, results = list(clone.get_parameters()), list(clone.get_results())
    batch = find_batch(clone)
    for parameter, port in zip(parameters, clone.inputs, strict=True):
        parameter.set_partial_shape(ov.PartialShape(list(input_shape(port, step))))
    for node in clone.get_ordered_ops():
        # Shape inference stops at a state, whose length is unknown: a Parameter states it.
        if node.get_type_name() == "ReadValue":
            results += [op.Result(port.get_source_output()) for port in node.inputs()]
            past = op.Parameter(
                node.get_output_element_type(0), ov.Shape(state_shape(node, step, batch))
            )
            # Callers look nodes up by the names of the model.
            past.set_friendly_name(node.get_friendly_name())
            node.output(0).replace(past.output(0))
            parameters.append(past)
        elif node.get_type_name() == "Assign":
            whole = op.Result(node.input(0).get_source_output())
            whole.set_friendly_name(node.get_friendly_name())
            results.append(whole)
    static = ov.Model(results, parameters, model.get_friendly_name())
    try:
        static.validate_nodes_and_infer_types()
    except RuntimeError as error:
        raise UserError(
            f"the model does not take {step.new} tokens after {step.past}: leave the number of "
            f"tokens of all its inputs dynamic; OpenVINO: {last_line(error)}"
        ) from error
    # A dynamic size would become a wrong cost without notice.
    nodes = {node.get_friendly_name(): node for node in static.get_ordered_ops()}
    if name := find_dynamic(nodes.values()):
        raise UserError(
            f"{name!r} has a dynamic shape even with {step.new} new tokens after {step.past}: bind "
            "more of the inputs' dimensions by shapes={name: [...]} (--shape 'name[...]')"
        )
    return nodes


def state_shape(node: ov.Node, step: Step, batch: int) -> list[int]:
    """The shape of a state before a step: the first dimension is the batch, others count tokens."""
    return [
        size.get_length() if size.is_static else (step.past if axis else batch)
        for axis, size in enumerate(node.get_output_partial_shape(0))
    ]
