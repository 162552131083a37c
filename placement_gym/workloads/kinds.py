"""The kinds of requests, and the one that a model runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.models.shapes import Shapes
from placement_gym.workloads.conversation import Conversation
from placement_gym.workloads.inference import Inference
from placement_gym.workloads.request import Request

if TYPE_CHECKING:
    import openvino as ov

KINDS: tuple[type[Request], ...] = (Conversation, Inference)
"""The first that applies to a model is what it runs."""


def make_request(
    model: ov.Model, scenario: str | None = None, data_shapes: Shapes | None = None
) -> Request:
    """The inferences of one request of a model.

    Args:
        model: As ``models.load`` returns it.
        scenario: As for ``gym.make``.
        data_shapes: As for ``gym.make``.

    Raises:
        UserError: The keywords do not fit the model.
    """
    requests = (kind.of(model, scenario, data_shapes) for kind in KINDS)
    return next(request for request in requests if request is not None)
