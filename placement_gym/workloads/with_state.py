"""The request of a model with state: a conversation, or equal steps if it reads no tokens."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from placement_gym.base import FloatArray, UserError
from placement_gym.models import Input, InputsArgument, as_input, input_names, read_own
from placement_gym.workloads.request import Request, Shaped
from placement_gym.workloads.runs import Inputs
from placement_gym.workloads.samples import draw
from placement_gym.workloads.steps import (
    Step,
    counted_axis,
    counts_tokens,
    find_fixed_sizes,
    match_state,
    sample_at_step,
    shape_nodes_at_step,
    take_step,
    tokens_of,
)

if TYPE_CHECKING:
    import openvino as ov


class Scenario(Request):
    """Several inferences on a state, timed as one."""

    separable: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The argument ``scenario`` that makes it."""

    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """Every inference."""

    def check_lengths(self, model: ov.Model) -> None:
        """Raise ``UserError`` if the user's arrays of tokens are shorter than the scenario."""
        steps = self.steps()
        for sample in self.own.samples:
            for index, value in sample.items():
                port = model.inputs[index]
                axis = counted_axis(port, self.data_shapes)
                needed = max(tokens_of(port, step).stop for step in (steps[0], steps[-1]))
                if axis is not None and value.shape[axis] < needed:
                    raise UserError(
                        f"{input_names(port)[0]!r} has {value.shape[axis]} tokens, "
                        f"and scenario {self.name!r} takes {needed}: give so many, or state the "
                        "lengths of a prompt and its answer, as in --scenario chat-128-32"
                    )

    def keywords(self) -> dict[str, Any]:
        return {"scenario": self.name, **super().keywords()}

    def list_lines(self) -> list[str]:
        return [self.name, *super().list_lines()]

    def list_notes(self) -> list[str]:
        return [f"latencies are those of scenario {self.name!r}", *super().list_notes()]


@draw.register(Scenario)
def draw_steps(scenario: Scenario, model: ov.Model, number: int = 0) -> list[Inputs]:
    """See ``samples.draw``; the user's arrays hold the tokens of the whole scenario."""
    rng, sizes = np.random.default_rng(number), scenario.data_shapes
    steps = [match_state(step, model) for step in scenario.steps()]
    samples = scenario.own.samples[number : number + 1] or scenario.own.samples[:1]
    given = samples[0] if samples else {}
    of_ports: list[list[Input]] = []
    for index, port in enumerate(model.inputs):
        axis = counted_axis(port, sizes)
        if index in given and axis is not None:
            of_ports.append([take_step(port, given[index], step, axis) for step in steps])
        elif index in given:
            of_ports.append([as_input(given[index], port.get_element_type())] * len(steps))
        elif input_names(port)[0] in sizes:
            of_ports.append([sample_at_step(port, steps[0], rng, sizes)] * len(steps))
        else:
            of_ports.append([sample_at_step(port, step, rng, sizes) for step in steps])
    return [[values[step] for values in of_ports] for step in range(len(steps))]


def make_scenario(model: ov.Model, scenario: str | None, inputs: InputsArgument | None) -> Scenario:
    """See ``make_request``."""
    # In version 0.3 every scenario was a conversation.
    named = (scenario or "").startswith("chat")
    kind = Conversation if named or counts_tokens(model) else EqualSteps
    return kind.from_model(model, scenario, inputs)


CHAT = re.compile(r"chat(-(?P<prompt>\d{1,7})-(?P<decoded>\d{1,7}))?")
PROMPT, DECODED = 64, 16
"""Numbers of tokens of ``"chat"``."""


@dataclass(frozen=True)
class Conversation(Scenario):
    """A prefill of ``prompt`` tokens on an empty state, then ``decoded`` single tokens."""

    phased: ClassVar[bool] = True
    parts: ClassVar[Sequence[str]] = ("prefill_ms", "token_ms")

    prompt: int = PROMPT
    decoded: int = DECODED

    def __post_init__(self) -> None:
        if min(self.prompt, self.decoded) < 1:
            raise UserError(f"{self.name!r}: a scenario has a prompt and decodes tokens, 1 or more")

    @classmethod
    def from_model(
        cls, model: ov.Model, scenario: str | None, inputs: InputsArgument | None
    ) -> Self:
        named = cls.parse(scenario or "chat")
        own = read_own(model, inputs)
        request = replace(named, data_shapes=find_fixed_sizes(model, own), own=own)
        request.check_lengths(model)
        return request

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read ``"chat"``, or ``"chat-128-32"``: a prompt of 128 tokens, then 32 decoded ones."""
        match = CHAT.fullmatch(name) if isinstance(name, str) else None
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
        pasts = range(self.prompt, self.prompt + self.decoded)
        return [Step(0, self.prompt), *(Step(past, 1) for past in pasts)]

    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        # Work and sizes grow linearly with the state, so the decoded tokens cost as much as if
        # half of them were the first one, and half the last one.
        steps, half = self.steps(), self.decoded / 2
        shares = ((1.0, 0), (half, 1), (half, self.decoded))
        return [
            Shaped(count, shape_nodes_at_step(model, steps[number], self.data_shapes), number)
            for count, number in shares
        ]

    def find_parts(self, times_ms: FloatArray) -> dict[str, float]:
        prompt, tokens = times_ms[:, 0], times_ms[:, 1:]
        return {
            "prefill_ms": float(np.median(prompt)),
            "token_ms": float(np.median(tokens.mean(axis=1))),
        }


STEPS = re.compile(r"steps(-(?P<count>[1-9]\d{0,6}))?")
COUNT = 16
"""Steps of ``"steps"``. Hand-tuned: a first one, which may be slower, counts little."""


@dataclass(frozen=True)
class EqualSteps(Scenario):
    """``count`` inferences of equal shapes; the user's inputs are the same in each."""

    parts: ClassVar[Sequence[str]] = ("step_ms",)

    count: int = COUNT

    @classmethod
    def from_model(
        cls, model: ov.Model, scenario: str | None, inputs: InputsArgument | None
    ) -> Self:
        match = STEPS.fullmatch(scenario or "steps")
        if match is None:
            raise UserError(
                "the model keeps state and reads no tokens, so its scenario is a number of equal "
                f"steps, as in 'steps-{COUNT}', not {scenario!r:.200}"
            )
        own = read_own(model, inputs)
        count = int(match["count"] or COUNT)
        return cls(count, data_shapes=find_fixed_sizes(model, own), own=own)

    @property
    def name(self) -> str:
        return f"steps-{self.count}"

    def steps(self) -> Sequence[Step]:
        return [Step(1, 1)] * self.count

    def list_shapes(self, model: ov.Model) -> Sequence[Shaped]:
        nodes = shape_nodes_at_step(model, Step(1, 1), self.data_shapes)
        return [Shaped(1.0, nodes), Shaped(self.count - 1.0, nodes)]

    def find_parts(self, times_ms: FloatArray) -> dict[str, float]:
        return {"step_ms": float(np.median(times_ms.mean(axis=1)))}
