"""The kinds of requests, and the one that a model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from placement_gym.base.lazy import import_name
from placement_gym.models.given import Given
from placement_gym.models.stateful import is_stateful
from placement_gym.workloads.inference import Inference
from placement_gym.workloads.request import Request

if TYPE_CHECKING:
    import openvino as ov


class Kind(NamedTuple):
    """A kind of request.

    Attributes:
        applies: Whether a model runs it under a scenario.
        source: Module and name of the function that makes it, with arguments as of
            ``make_request``.
    """

    applies: Callable[[ov.Model, str | None], bool]
    source: str


KINDS = (
    Kind(
        lambda model, scenario: is_stateful(model),
        "placement_gym.workloads.with_state:make_scenario",
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
    make: Callable[..., Request] = import_name(sources[0]) if sources else Inference.of
    return make(model, scenario, inputs)
