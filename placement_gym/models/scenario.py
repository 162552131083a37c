"""Requests of models with state: a prompt, then tokens one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from placement_gym.base.errors import UserError

if TYPE_CHECKING:
    import openvino as ov

NAME = re.compile(r"chat(-(?P<prompt>\d{1,7})-(?P<decoded>\d{1,7}))?")
PROMPT, DECODED = 64, 16
"""Lengths of ``"chat"``."""


@dataclass(frozen=True)
class Step:
    """One inference of a scenario.

    Attributes:
        past: Tokens that the state holds before it.
        new: Tokens that it is given.
    """

    past: int
    new: int


@dataclass(frozen=True)
class Scenario:
    """A prefill of some tokens on an empty state, then inferences of one token each.

    Attributes:
        prompt: Tokens of the prefill.
        decoded: Inferences that follow, of one token each.

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

    @property
    def n_inferences(self) -> int:
        return 1 + self.decoded

    def steps(self) -> list[Step]:
        """Every inference, the prefill first."""
        return [Step(0, self.prompt), *(Step(past, 1) for past in self.pasts())]

    def pasts(self) -> range:
        """Tokens that the state holds before each decoded one."""
        return range(self.prompt, self.prompt + self.decoded)


def is_stateful(model: ov.Model) -> bool:
    """Return whether a model keeps state between inferences."""
    return bool(model.get_variables())


def input_shape(port: ov.Output, step: Step) -> tuple[int, ...]:
    """The shape of an input at a step of a scenario.

    Dimensions that are not bound have the meaning that exported language models give them: the
    first is the batch, of one sequence; the second counts the new tokens, for an attention mask
    all tokens.

    Raises:
        UserError: Other dimensions are dynamic, or the tokens are not.
    """
    shape, name = port.get_partial_shape(), port.get_node().get_friendly_name()
    if shape.rank.is_dynamic or any(size.is_dynamic for size in list(shape)[2:]):
        raise UserError(
            f"input {name!r} has shape {shape}: bind all but the first dimensions, batch and "
            f"tokens, as in shapes={{{name!r}: ['?', '?', 64]}} (--shape '{name}[?,?,64]')"
        )
    tokens = step.past + step.new if "mask" in name else step.new
    sizes = [
        size.get_length() if size.is_static else (1, tokens)[axis]
        for axis, size in enumerate(shape)
    ]
    return tuple(sizes)
