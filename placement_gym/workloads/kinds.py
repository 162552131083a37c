"""The kinds of requests, and the one that a model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from placement_gym.base.lazy import import_name
from placement_gym.models.given import Given
from placement_gym.models.stateful import is_stateful
from placement_gym.workloads.inference import Inference
from placement_gym.workloads.request import Request
from placement_gym.workloads.steps import counts_tokens

if TYPE_CHECKING:
    import openvino as ov


class Kind(NamedTuple):
    """A kind of request.

    Attributes:
        applies: Whether a model runs it under a scenario.
        source: Module and name of its class.
    """

    applies: Callable[[ov.Model, str | None], bool]
    source: str


KINDS = (
    Kind(
        # A named conversation is one: version 0.3 had no other scenarios.
        lambda model, scenario: (
            is_stateful(model)
            and not (scenario or "").startswith("chat")
            and not counts_tokens(model)
        ),
        "placement_gym.workloads.signal:Signal",
    ),
    Kind(
        lambda model, scenario: is_stateful(model),
        "placement_gym.workloads.conversation:Conversation",
    ),
)
"""The first that applies to a model is what it runs; if none does, a single inference."""


def make_request(
    model: ov.Model, scenario: str | None = None, inputs: Given | None = None
) -> Request:
    """The inferences of one request of a model.

    Args:
        model: As ``models.load`` returns it.
        scenario: As for ``gym.make``.
        inputs: As for ``gym.make``.

    Raises:
        UserError: The keywords do not fit the model.
    """
    sources = [kind.source for kind in KINDS if kind.applies(model, scenario)]
    kind: type[Request] = import_name(sources[0]) if sources else Inference
    return kind.of(model, scenario, inputs)
