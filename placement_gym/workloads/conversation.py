"""A conversation with a model with state: a prompt, then tokens one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from placement_gym.base.errors import UserError
from placement_gym.base.texts import last_line
from placement_gym.models.named_inputs import BEAMS, GROWING_MASKS, POSITIONS, batch_axis, is_named
from placement_gym.models.shapes import Shapes
from placement_gym.models.stateful import find_batch
from placement_gym.models.tensors import Input, as_input
from placement_gym.workloads.request import Request, Shaped
from placement_gym.workloads.runs import Beat, EngineRequest, Inputs, StepsRun
from placement_gym.workloads.samples import sample_input

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
class Conversation(Request):
    """A prefill of ``prompt`` tokens on an empty state, then ``decoded`` ones of a token.

    Raises:
        UserError: One of them is less than 1.
    """

    phased: ClassVar[bool] = True
    separable: ClassVar[bool] = False
    parts: ClassVar[Sequence[str]] = ("prefill_ms", "token_ms")

    prompt: int = PROMPT
    decoded: int = DECODED

    def __post_init__(self) -> None:
        if min(self.prompt, self.decoded) < 1:
            raise UserError(f"{self.name!r}: a scenario has a prompt and decodes tokens, 1 or more")

    @classmethod
    def of(cls, model: ov.Model, scenario: str | None, data_shapes: Shapes | None) -> Self:
        return cls.parse(scenario or "chat")

    @classmethod
    def parse(cls, name: str) -> Self:
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

    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        """See ``Request.list_shapes``.

        Work and sizes grow linearly with the tokens that the state holds, so the decoded tokens
        cost as much as if one half of them were the first and the other half the last one.
        """
        steps, half = self.steps(), self.decoded / 2
        shares = ((1.0, 0), (half, 1), (half, self.decoded))
        return [
            Shaped(count, shape_nodes_at_step(model, steps[number]), number)
            for count, number in shares
        ]

    def sample_inputs(self, model: ov.Model) -> list[Inputs]:
        """Sample inputs as ``samples`` does, with counted positions and beams that continue."""
        rng = np.random.default_rng(0)
        return [[sample_at_step(port, step, rng) for port in model.inputs] for step in self.steps()]

    def start(self, request: EngineRequest, steps: Sequence[Inputs], beat: Beat) -> ConversationRun:
        return ConversationRun(request, steps, beat)

    def keywords(self) -> dict[str, Any]:
        return {"scenario": self.name}

    def list_lines(self) -> list[str]:
        return [self.name]

    def list_notes(self) -> list[str]:
        return [f"latencies are those of scenario {self.name!r}"]


class ConversationRun(StepsRun):
    """The inferences of a conversation, with the times of its prompt and of a token."""

    def parts_ms(self) -> dict[str, float]:
        times = np.stack(self.times)
        prompt, tokens = times[:, 0], times[:, 1:]
        return {
            "prefill_ms": float(np.median(prompt)),
            "token_ms": float(np.median(tokens.mean(axis=1))),
        }


def sample_at_step(port: ov.Output, step: Step, rng: np.random.Generator) -> Input:
    shape, element_type = input_shape(port, step), port.get_element_type()
    counts = element_type.is_integral() and shape
    if counts and is_named(port, POSITIONS):
        return as_input(np.broadcast_to(step.past + np.arange(shape[-1]), shape), element_type)
    if counts and is_named(port, BEAMS):
        return as_input(np.broadcast_to(np.arange(shape[0]), shape), element_type)
    return sample_input(port, shape, rng)


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
    """Nodes by name with the shapes that they have at a step of a scenario; see ``shape_nodes``.

    Of a copy of the model in which a Parameter stands for each ``ReadValue`` and a Result for each
    ``Assign``, so that the state has a length.

    Raises:
        UserError: The model does not take the scenario's lengths.
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
            result = op.Result(node.input(0).get_source_output())
            result.set_friendly_name(node.get_friendly_name())
            results.append(result)
    static = ov.Model(results, parameters, model.get_friendly_name())
    try:
        static.validate_nodes_and_infer_types()
    except RuntimeError as error:
        raise UserError(
            f"the model does not take {step.new} tokens after {step.past}: leave the number of "
            f"tokens of all its inputs dynamic; OpenVINO: {last_line(error)}"
        ) from error
    return {node.get_friendly_name(): node for node in static.get_ordered_ops()}


def state_shape(node: ov.Node, step: Step, batch: int) -> list[int]:
    """The shape of a state before a step: the first dimension is the batch, others count tokens."""
    return [
        size.get_length() if size.is_static else (step.past if axis else batch)
        for axis, size in enumerate(node.get_output_partial_shape(0))
    ]
