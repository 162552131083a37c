"""The request of a model with state: a conversation, or equal steps if it reads no tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from placement_gym.base import FloatArray, UserError
from placement_gym.models import Given, read_own
from placement_gym.workloads.request import Shaped
from placement_gym.workloads.scenario import Scenario
from placement_gym.workloads.steps import Step, counts_tokens, find_fixed_sizes, shape_nodes_at_step

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.models import Given
    from placement_gym.workloads.scenario import Scenario


def make_scenario(model: ov.Model, scenario: str | None, inputs: Given | None) -> Scenario:
    """See ``kinds.make_request``."""
    # A named conversation is one: version 0.3 had no other scenarios.
    named = (scenario or "").startswith("chat")
    kind = Conversation if named or counts_tokens(model) else Signal
    return kind.of(model, scenario, inputs)


CHAT = re.compile(r"chat(-(?P<prompt>\d{1,7})-(?P<decoded>\d{1,7}))?")
PROMPT, DECODED = 64, 16
"""Lengths of ``"chat"``."""


@dataclass(frozen=True)
class Conversation(Scenario):
    """A prefill of ``prompt`` tokens on an empty state, then ``decoded`` ones of a token.

    Raises:
        UserError: One of them is less than 1.
    """

    phased: ClassVar[bool] = True
    parts: ClassVar[Sequence[str]] = ("prefill_ms", "token_ms")

    prompt: int = PROMPT
    decoded: int = DECODED

    def __post_init__(self) -> None:
        if min(self.prompt, self.decoded) < 1:
            raise UserError(f"{self.name!r}: a scenario has a prompt and decodes tokens, 1 or more")

    @classmethod
    def of(cls, model: ov.Model, scenario: str | None, inputs: Given | None) -> Self:
        named = cls.parse(scenario or "chat")
        own = read_own(model, inputs)
        request = replace(named, data_shapes=find_fixed_sizes(model, own), own=own)
        request.check_lengths(model)
        return request

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read ``"chat"``, or ``"chat-128-32"``: a prompt of 128 tokens, then 32 decoded ones.

        Raises:
            UserError: It is neither.
        """
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
"""Steps of ``"steps"``: ours, so many that a first one, which may be slower, counts little."""


@dataclass(frozen=True)
class Signal(Scenario):
    """``count`` inferences of equal shapes: own inputs are the same in each."""

    parts: ClassVar[Sequence[str]] = ("step_ms",)

    count: int = COUNT

    @classmethod
    def of(cls, model: ov.Model, scenario: str | None, inputs: Given | None) -> Self:
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
